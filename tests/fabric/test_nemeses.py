"""Each nemesis does to a cluster of real processes what it says, and heals it.

One cluster for all of them: whatever befell it, it is whole again before the next.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chaos.nemeses import NEMESES, Heal
from chaos.worlds.processes import ProcessWorld
from chaos.worlds.switch import Rule
from raftbatch.client import Client, ClientOptions, RequestFailed
from raftbatch.errors import RaftbatchError
from tests.e2e.cluster import CALM
from tests.fabric.nodes import needs_namespaces
from tests.fabric.test_disks import needs_disks
from tests.tidy.tree import ROOT

pytestmark = [*needs_namespaces, *needs_disks, pytest.mark.slow]

SEED = 7
LIMIT_S = 60.0
DISK_BYTES = 512 << 20


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessWorld]:
    folder = tmp_path_factory.mktemp("world")
    text = (ROOT / "cluster_configs" / "chaos-3.toml").read_text("utf-8")
    config = folder / "calm.toml"
    config.write_text(text.replace('"../chaos', f'"{ROOT}/chaos') + CALM, "utf-8")
    with ProcessWorld(folder, config, seed=SEED, disks="loop", disk_bytes=DISK_BYTES) as world:
        world.start()
        yield world


_HEALS: list[Heal] = []


@pytest.fixture
def world(stage: ProcessWorld) -> Iterator[ProcessWorld]:
    stage.wait_ready(LIMIT_S)
    yield stage
    while _HEALS:  # of a test that failed too: the next ones are not to suffer from it
        _HEALS.pop()()


def _act(world: ProcessWorld, name: str, seed: int = SEED) -> Heal:
    nemesis = NEMESES[name]
    if lacking := nemesis.needs - world.has:
        pytest.skip(f"{name} needs {', '.join(sorted(lacking))}")
    _HEALS.append(nemesis.act(world, Random(seed)))
    return _HEALS[-1]


def _heal(world: ProcessWorld, heal: Heal) -> None:
    heal()
    heal()
    world.wait_ready(LIMIT_S)


def _leader(world: ProcessWorld) -> str:
    found: list[str] = []

    def leads() -> str:
        found.extend(filter(None, [world.leader()]))
        return "" if found else "a leader"

    world.wait_until(leads, LIMIT_S)
    return found[0]


def _ask(world: ProcessWorld, count: int = 1) -> None:
    with Client(world.addresses) as client:
        for number in range(count):
            assert client.infer("echo", {"text": f"{number}|ok|"})["text"] == f"did:{number}|ok|"


def _dead(world: ProcessWorld) -> set[str]:
    return {name for name in world.everyone if not world.is_alive(name)}


def _applied(world: ProcessWorld) -> list[int]:
    return [each.applied for each in world.statuses().values()]


def _led_by_another(world: ProcessWorld, leader: str) -> None:
    """Wait until another node leads."""
    missing = "another leader"
    world.wait_until(lambda: missing if world.leader() in (None, leader) else "", LIMIT_S)


@pytest.mark.parametrize("name", ["kill-leader", "kill-follower", "kill-all", "kill-executors"])
def test_killing(world: ProcessWorld, name: str) -> None:
    leader = _leader(world)
    heal = _act(world, name)
    dead = _dead(world)
    followers = set(world.nodes) - {leader}
    match name:
        case "kill-leader":
            assert dead == {leader}
        case "kill-follower":
            assert len(dead & followers) == len(dead) == 1
        case "kill-all":
            assert dead == set(world.nodes)
            assert world.leader() is None
        case _:
            assert dead == set(world.executors)
    _heal(world, heal)


def _state(world: ProcessWorld, name: str) -> str:
    text = Path(f"/proc/{world.pid(name)}/stat").read_text("utf-8")
    return text.rpartition(")")[2].split()[0]


def _paused(world: ProcessWorld) -> list[str]:
    return [each for each in world.everyone if _state(world, each) == "T"]


@pytest.mark.parametrize("name", ["pause-leader", "pause-follower", "pause-executor"])
def test_pausing(world: ProcessWorld, name: str) -> None:
    leader = _leader(world)
    heal = _act(world, name)
    world.wait_until(lambda: "" if _paused(world) else "one that stands still", LIMIT_S)
    [paused] = _paused(world)
    assert _dead(world) == set()
    if name == "pause-leader":
        assert paused == leader
        _led_by_another(world, leader)
    else:
        assert paused in (world.executors if "executor" in name else world.nodes)
        assert paused != leader
    _heal(world, heal)
    assert not _paused(world)


def _ruled(world: ProcessWorld) -> dict[tuple[str, str], Rule]:
    assert world.fabric is not None
    pairs = [(a, b) for a in world.everyone for b in world.everyone if a != b]
    rules = {pair: world.fabric.rule(*pair) for pair in pairs}
    return {pair: rule for pair, rule in rules.items() if rule != Rule()}


def _nodes_cut_off(world: ProcessWorld) -> list[str]:
    """Return the nodes that hear nobody and are heard by nobody."""
    count = len(world.everyone) - 1
    cut = [pair for pair, rule in _ruled(world).items() if rule.cut]
    return [node for node in world.everyone if sum(node in pair for pair in cut) == 2 * count]


def test_cutting_off(world: ProcessWorld) -> None:
    leader = _leader(world)
    heal = _act(world, "isolate-leader")
    assert _nodes_cut_off(world) == [leader]
    _led_by_another(world, leader)
    heal()
    assert _ruled(world) == {}
    world.wait_ready(LIMIT_S)
    leader = _leader(world)
    heal = _act(world, "depose-leader")
    assert _nodes_cut_off(world) == [leader]
    heal()  # which waits until there is another
    assert _leader(world) != leader
    assert _ruled(world) == {}
    for name in ("isolate-follower", "isolate-executor", "scatter"):
        world.wait_ready(LIMIT_S)
        leader = _leader(world)
        heal = _act(world, name)
        cut_off = _nodes_cut_off(world)
        assert len(cut_off) == (len(world.everyone) if name == "scatter" else 1)
        assert name == "scatter" or leader not in cut_off
        heal()
        assert _ruled(world) == {}


def test_cutting_in_parts_and_one_way(world: ProcessWorld) -> None:
    leader = _leader(world)
    heal = _act(world, "one-way")
    [(pair, rule)] = _ruled(world).items()
    assert rule.cut
    assert leader in pair
    assert set(pair) < set(world.nodes)
    heal()
    heal = _act(world, "half-deaf-leader")
    cut = set(_ruled(world))
    leader = next(iter(set.intersection(*map(set, cut))))
    assert len({pair.index(leader) for pair in cut}) == 1
    assert len(cut) == len(world.everyone) - 1
    heal()
    heal = _act(world, "partition")
    cut = set(_ruled(world))
    assert {(b, a) for a, b in cut} == cut
    side = {"n1"} | {name for name in world.everyone if name != "n1" and ("n1", name) not in cut}
    others = set(world.everyone) - side
    assert cut == {pair for a in side for b in others for pair in ((a, b), (b, a))}
    assert side & set(world.nodes)
    assert others & set(world.nodes)
    heal()
    assert _ruled(world) == {}


@pytest.mark.parametrize("name", ["slow-net", "lossy-net"])
def test_slow_and_lossy_links_carry_requests(world: ProcessWorld, name: str) -> None:
    heal = _act(world, name)
    pairs = len(world.everyone) * (len(world.everyone) - 1)
    assert len(_ruled(world)) == pairs
    _ask(world)
    _heal(world, heal)
    assert _ruled(world) == {}


@pytest.mark.parametrize(("name", "count"), [("power-loss", 1), ("power-loss-all", 3)])
def test_power_loss_takes_nodes_and_nothing_that_was_acknowledged(
    world: ProcessWorld, name: str, count: int
) -> None:
    _ask(world, 5)
    applied = max(_applied(world))  # at least what was acknowledged: its leader answers
    heal = _act(world, name)
    assert len(_dead(world)) == count
    assert _dead(world) <= set(world.nodes)
    # None had the time to see that its disk is gone.
    assert all(world.ending(node).startswith("SIGKILL; ") for node in _dead(world))
    _heal(world, heal)

    def all_have_it() -> str:
        found = _applied(world)
        return "" if len(found) == len(world.nodes) and min(found) >= applied else str(found)

    world.wait_until(all_have_it, LIMIT_S)


def _takes(world: ProcessWorld, node: str) -> bool:
    """Return whether a node's disk takes what is written to it."""
    try:
        (world.disks[node].path / "more").write_bytes(bytes(64 << 10))
    except OSError:
        return False
    return True


def _refusal(world: ProcessWorld) -> str:
    """Ask for something; return how it was refused; empty: it was not."""
    try:
        with Client(world.addresses, ClientOptions(patience_s=1.0)) as client:
            client.infer("echo", {"text": "1|ok|"})
    except RaftbatchError as error:
        return error.slug
    return ""


def test_low_disks_refuse_and_recover_by_themselves(world: ProcessWorld) -> None:
    leader = _leader(world)
    with Client(world.addresses) as client:
        # In the log before, and not run: nobody runs anything for now.
        for executor in world.executors:
            world.pause(executor)
        ticket = client.submit("echo", {"text": "0|ok|"})
        heal = _act(world, "low-disk-all")
        world.wait_until(lambda: "" if _refusal(world) == "no_space" else "a refusal", LIMIT_S)
        assert _leader(world) == leader
        for executor in world.executors:
            world.resume(executor)
        assert ticket.result()["text"] == "did:0|ok|"  # there is room to end what was begun
    assert _refusal(world) == "no_space"
    _heal(world, heal)
    _ask(world)


def test_full_disks_stop_all_and_recover_by_themselves(world: ProcessWorld) -> None:
    pids = [world.pid(node) for node in world.nodes]
    heal = _act(world, "fill-disk-all")

    def goes_on() -> str:
        # What is written is what shows a node that there is no space; it gives its reserve back
        # then, so that only its own word tells that the disk was full.
        _refusal(world)
        statuses = world.statuses()
        return "" if {each.space for each in statuses.values()} == {"reserve"} else str(statuses)

    world.wait_until(goes_on, LIMIT_S)
    heal()
    _ask(world)
    assert [world.pid(node) for node in world.nodes] == pids


def test_node_whose_disk_turns_read_only_comes_back(world: ProcessWorld) -> None:
    heal = _act(world, "read-only-disk")
    _ask(world)  # a majority has its disks

    [hit] = [node for node in world.nodes if not _takes(world, node)]
    world.wait_until(lambda: hit if world.is_alive(hit) else "", LIMIT_S)
    assert "Read-only file system" in world.log_file(hit).read_text("utf-8")
    _heal(world, heal)


@pytest.mark.parametrize("name", ["fail-fsync", "kill-in-fsync"])
def test_node_whose_sync_fails_ends_and_comes_back(world: ProcessWorld, name: str) -> None:
    heal = _act(world, name)
    told = {node: world.preloads[node].told() for node in world.nodes}
    [hit] = [node for node, each in told.items() if each.sync_errno or each.sync_kills]

    def unharmed() -> str:
        if world.is_alive(hit):
            _ask(world)
        return hit if world.is_alive(hit) else ""

    world.wait_until(unharmed, LIMIT_S)
    _heal(world, heal)
    _ask(world)


def test_slow_syncs_are_waited_for(world: ProcessWorld) -> None:
    heal = _act(world, "slow-fsync-all")
    assert all(world.preloads[node].told().sync_delay_ns for node in world.nodes)
    _ask(world)
    _heal(world, heal)


@pytest.mark.parametrize("name", ["clock-jump", "clock-rate"])
def test_wrong_clocks_do_not_matter(world: ProcessWorld, name: str) -> None:
    heal = _act(world, name)
    told = [world.preloads[each].told() for each in world.everyone]
    assert any(each.clock_ahead_ns or each.clock_ppm for each in told)
    _ask(world, 3)
    _heal(world, heal)


def test_model_that_eats_more_than_there_is_is_ended_alone(world: ProcessWorld) -> None:
    limits = [_act(world, "low-memory-executor", seed) for seed in range(2)]
    with Client(world.addresses) as client, pytest.raises(RequestFailed):
        client.infer("trouble", {"text": "1|eat|"})
    _ask(world)
    for heal in limits:
        heal()
    _heal(world, limits[0])


def test_rolling_restart_ends_with_all_in_place(world: ProcessWorld) -> None:
    pids = [world.pid(name) for name in world.everyone]
    _heal(world, _act(world, "restart-rolling"))
    assert not set(pids) & {world.pid(name) for name in world.everyone}
    _ask(world)
