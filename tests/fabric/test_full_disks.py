"""Full disks of one node, of each in turn, of all: nothing is lost, and nobody has to be restarted.

One cluster for all of it: whatever befell it, it is whole again before the next.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random

import pytest

from chaos.gathering import idle
from chaos.nemeses import NEMESES
from chaos.worlds.processes import ProcessWorld
from raftbatch.client import Client, ClientOptions
from raftbatch.errors import RaftbatchError
from tests.fabric.test_disks import needs_disks
from tests.tidy.tree import ROOT

pytestmark = [*needs_disks, pytest.mark.slow]

LIMIT_S = 60.0
DISK_BYTES = 512 << 20


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessWorld]:
    folder = tmp_path_factory.mktemp("world")
    config = ROOT / "cluster_configs" / "chaos-3.toml"
    with ProcessWorld(
        folder, config, seed=7, network=False, disks="loop", disk_bytes=DISK_BYTES, executors=1
    ) as world:
        world.start()
        yield world


@pytest.fixture
def world(stage: ProcessWorld) -> Iterator[ProcessWorld]:
    stage.wait_ready(LIMIT_S)
    pids = [stage.pid(name) for name in stage.everyone]
    yield stage
    for disk in stage.disks.values():
        disk.free()
    assert idle(stage, LIMIT_S), "replicas are not equal and idle once there is room again"
    digests = {each.digest for each in stage.statuses().values()}
    assert len(digests) == 1
    assert [stage.pid(name) for name in stage.everyone] == pids
    assert all(stage.is_alive(name) for name in stage.everyone)


def _ask(world: ProcessWorld, text: str) -> None:
    with Client(world.addresses, ClientOptions(patience_s=LIMIT_S)) as client:
        assert client.infer("echo", {"text": text})["text"] == f"did:{text}"


def _space(world: ProcessWorld, node: str) -> str:
    status = world.statuses().get(node)
    return status.space if status is not None else ""


def _lacks_room(world: ProcessWorld, node: str) -> str:
    return "" if _space(world, node) == "roomy" else f"room on the disk of {node}"


def _leader(world: ProcessWorld) -> str:
    world.wait_until(lambda: "" if world.leader() else "a leader", LIMIT_S)
    leader = world.leader()
    assert leader is not None
    return leader


def _refused(addresses: Sequence[str], forward: bool = False) -> str:
    """Ask for something; return how it was refused; empty: it was not."""
    try:
        with Client(addresses, ClientOptions(patience_s=1.0, forward=forward)) as client:
            client.submit("echo", "1|ok|")
    except RaftbatchError as error:
        return error.slug
    return ""


def _not_refused(addresses: Sequence[str], forward: bool = False) -> str:
    """Return what is asked for in vain; empty: it is refused, and that says why."""
    slug = _refused(addresses, forward)
    return "" if slug == "no_space" else f"a refusal by {addresses}, which say {slug or 'yes'}"


def test_full_disk_of_any_one_node_stops_nothing(world: ProcessWorld) -> None:
    # Of the leader first. The executor follows its feed at one of the three, and goes elsewhere.
    leader = _leader(world)
    for node in (leader, *(each for each in world.nodes if each != leader)):
        world.disks[node].fill()

        def is_full(node: str = node) -> str:
            _ask(world, "0|ok|")  # what is written is what shows that there is no room
            return "" if _space(world, node) == "reserve" else f"{node} to be full"

        world.wait_until(is_full, LIMIT_S)
        for number in range(3):
            _ask(world, f"{number}|ok|")
        assert _leader(world) != node
        world.disks[node].free()
        world.wait_until(partial(_lacks_room, world, node), LIMIT_S)


def test_low_disks_refuse_what_is_new_and_finish_what_runs(world: ProcessWorld) -> None:
    with (
        Client(world.addresses, ClientOptions(patience_s=LIMIT_S)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(client.infer, "echo", {"text": "1|wait=3|"})
        world.wait_until(lambda: "" if _runs(world) else "a batch that runs", LIMIT_S)
        NEMESES["low-disk-all"].act(world, Random(7))
        world.wait_until(partial(_not_refused, world.addresses), LIMIT_S)
        assert running.result(LIMIT_S)["text"] == "did:1|wait=3|"
    for disk in world.disks.values():
        disk.free()
    _ask(world, "2|ok|")


def _runs(world: ProcessWorld) -> bool:
    return any(each.scheduler.batches for each in world.statuses().values())


def test_full_disks_of_all_refuse_and_recover_by_themselves(world: ProcessWorld) -> None:
    with Client(world.addresses, ClientOptions(patience_s=LIMIT_S)) as client:
        ticket = client.submit("echo", "1|wait=1|")
        for disk in world.disks.values():
            disk.fill()

        def is_open() -> str:
            # What is written is what shows that there is no room; until then it is not refused.
            _refused(world.addresses)
            spaces = {each.space for each in world.statuses().values()}
            return "" if spaces == {"reserve"} and world.leader() is None else str(spaces)

        world.wait_until(is_open, LIMIT_S)
        # From then on by every node, whether it led or not.
        for address in world.addresses:
            for forward in (False, True):
                world.wait_until(partial(_not_refused, [address], forward), LIMIT_S)
        for disk in world.disks.values():
            disk.free()
        assert client.ticket(ticket.request_id, ticket.index).result()["text"]
