"""What can be done to a network is done to it, and no more: under real processes and sockets.

Datagrams show what passes, without waiting for what does not: a link keeps their order, so that
the first after healing tells that nothing before it is still to come.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from chaos.worlds.owners import Unable
from tests.fabric.agent import ECHO
from tests.fabric.nodes import Nodes, needs_namespaces, running

pytestmark = needs_namespaces

NAMES = ("n1", "n2", "n3")
ALL = set(permutations(NAMES, 2))
SEED = 7


@pytest.fixture(scope="module")
def stage() -> Iterator[Nodes]:
    with running(*NAMES, seed=SEED) as nodes:
        yield nodes


@pytest.fixture
def nodes(stage: Nodes) -> Iterator[Nodes]:
    yield stage
    stage.fabric.heal()


def _numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_fabric_connects_every_node_with_every_other(nodes: Nodes) -> None:
    assert [nodes.connect(a, b) for a, b in permutations(NAMES, 2)] == ["connected"] * 6
    assert nodes.passing() == ALL


def test_fabric_lets_a_node_reach_itself_and_nobody_outside(nodes: Nodes) -> None:
    assert nodes.connect("n1", "n1") == "connected"
    assert nodes.tell("n1", "connect", to="127.0.0.1") == "connected"
    assert nodes.tell("n1", "connect", to="192.0.2.1") == "Network is unreachable"
    assert nodes.tell("n1", "connect", to=nodes.fabric.harness) == "Connection refused"


def _harness_reaches(nodes: Nodes, node: str) -> bool:
    with socket.create_connection((nodes.fabric.address(node), ECHO), timeout=30) as connection:
        connection.sendall(b"x")
        return connection.recv(1) == b"x"


def test_cut_lets_nothing_through_either_way(nodes: Nodes) -> None:
    nodes.fabric.cut("n1", "n2")
    assert nodes.connect("n1", "n2", limit_s=0.2) == "TimeoutError"
    assert nodes.connect("n2", "n1", limit_s=0.2) == "TimeoutError"
    assert nodes.connect("n1", "n3") == "connected"
    assert nodes.connect("n3", "n2") == "connected"
    assert nodes.passing() == ALL - {("n1", "n2"), ("n2", "n1")}
    assert nodes.connect("n1", "n2") == "connected"


def test_cut_one_way_leaves_the_other(nodes: Nodes) -> None:
    nodes.fabric.cut("n1", "n2", one_way=True)
    before = nodes.fabric.counts("n1", "n2").cut
    assert nodes.passing() == ALL - {("n1", "n2")}
    assert nodes.fabric.counts("n1", "n2").cut > before


def test_cut_is_silence_to_a_connection_that_goes_on_when_healed(nodes: Nodes) -> None:
    assert nodes.connect("n1", "n2") == "connected"
    nodes.fabric.cut("n1", "n2", one_way=True)
    dropped = nodes.fabric.counts("n1", "n2").cut
    nodes.tell("n1", "say", words="through the cut")
    nodes.send("n1", "n3", "after it")
    assert nodes.fabric.counts("n1", "n2").cut > dropped
    assert nodes.received("n1", "n3") == ["after it"]
    assert nodes.tell("n1", "hear", count=15) == "through the cut"


@pytest.mark.parametrize(
    ("hears", "speaks", "passing"),
    [
        (False, False, ALL - {(a, b) for a, b in ALL if "n2" in (a, b)}),
        (True, False, ALL - {("n2", "n1"), ("n2", "n3")}),
        (False, True, ALL - {("n1", "n2"), ("n3", "n2")}),
        (True, True, ALL),
    ],
)
def test_isolate_cuts_a_node_off(
    nodes: Nodes, hears: bool, speaks: bool, passing: set[tuple[str, str]]
) -> None:
    nodes.fabric.isolate("n2", hears=hears, speaks=speaks)
    assert nodes.passing() == passing
    assert nodes.passing() == ALL


def test_isolate_leaves_the_harness_alone(nodes: Nodes) -> None:
    for node in NAMES:
        nodes.fabric.isolate(node)
    assert all(_harness_reaches(nodes, node) for node in NAMES)
    assert nodes.passing() == set()


def test_split_cuts_between_groups_alone(nodes: Nodes) -> None:
    nodes.fabric.split(["n1"], ["n2", "n3"])
    assert nodes.passing() == {("n2", "n3"), ("n3", "n2")}
    nodes.fabric.split(["n1"], ["n2"], ["n3"])
    assert nodes.passing() == set()
    with pytest.raises(ValueError, match="one group"):
        nodes.fabric.split(["n1"], ["n1", "n2"])


def test_slow_delays_each_way(nodes: Nodes) -> None:
    nodes.connect("n1", "n2")
    nodes.fabric.slow("n1", "n2", delay_s=0.03)
    assert min(nodes.tell("n1", "ping", count=5)) >= 0.06


def test_slow_one_way_leaves_the_other(nodes: Nodes) -> None:
    nodes.fabric.slow("n2", "n1", delay_s=3_600.0, one_way=True)
    nodes.send("n1", "n2", "there", "end")
    assert nodes.tell("n2", "receive", until="end") == ["there"]
    nodes.fabric.slow("n2", "n1", delay_s=0.03, one_way=True)
    nodes.connect("n1", "n2")
    assert min(nodes.tell("n1", "ping", count=5)) >= 0.03


def test_slow_keeps_the_order_whatever_the_jitter(nodes: Nodes) -> None:
    nodes.fabric.slow("n1", "n2", jitter_s=0.02)
    words = _numbered(200)
    nodes.send("n1", "n2", *words, "end")
    assert nodes.tell("n2", "receive", until="end") == words
    nodes.connect("n1", "n2")
    assert max(nodes.tell("n1", "ping", count=30)) >= 0.01


def test_slow_limits_what_passes_in_a_second(nodes: Nodes) -> None:
    nodes.fabric.slow("n1", "n2", bytes_per_s=2_000_000, queue_bytes=100_000)
    took_s, whole = nodes.tell("n1", "upload", to=nodes.fabric.address("n2"), count=1_024_000)
    assert whole
    assert took_s >= 0.5


def test_slow_drops_what_does_not_fit_its_queue(nodes: Nodes) -> None:
    before = nodes.fabric.counts("n1", "n2").overflowed
    nodes.fabric.slow("n1", "n2", bytes_per_s=1_000, queue_bytes=10_000)  # ten seconds of it
    nodes.send("n1", "n2", *(f"{number:0958}" for number in range(100)))  # 1000 bytes each
    dropped = nodes.fabric.counts("n1", "n2").overflowed - before
    received = nodes.received("n1", "n2")
    assert dropped + len(received) == 100
    assert dropped > 0
    assert [int(word) for word in received][:10] == list(range(10))


def test_heal_lets_arrive_what_was_on_its_way(nodes: Nodes) -> None:
    nodes.fabric.slow("n1", "n2", delay_s=3_600.0)
    nodes.send("n1", "n2", *_numbered(20))
    assert nodes.received("n1", "n2") == _numbered(20)


def test_cut_drops_what_was_on_its_way(nodes: Nodes) -> None:
    nodes.fabric.slow("n1", "n2", delay_s=3_600.0)
    nodes.send("n1", "n2", *_numbered(20))
    nodes.fabric.cut("n1", "n2")
    assert nodes.received("n1", "n2") == []


def test_lossy_drops_a_share(nodes: Nodes) -> None:
    before = nodes.fabric.counts("n1", "n2").lost
    nodes.fabric.lossy("n1", "n2", loss=0.5)
    nodes.send("n1", "n2", *_numbered(400))
    lost = nodes.fabric.counts("n1", "n2").lost - before
    received = nodes.received("n1", "n2")
    assert len(received) == 400 - lost
    assert 100 < lost < 300
    assert received == sorted(received, key=int)


def test_lossy_does_not_harm_a_connection(nodes: Nodes) -> None:
    before = nodes.fabric.counts("n1", "n2").lost
    nodes.fabric.lossy("n1", "n2", loss=0.1)
    took_s, whole = nodes.tell("n1", "upload", to=nodes.fabric.address("n2"), count=512_000)
    assert whole, took_s
    assert nodes.fabric.counts("n1", "n2").lost > before


def test_lossy_sends_twice(nodes: Nodes) -> None:
    nodes.fabric.lossy("n1", "n2", duplicate=1.0)
    nodes.send("n1", "n2", "a", "b")
    nodes.send("n2", "n1", "c")
    assert nodes.received("n1", "n2") == ["a", "a", "b", "b"]
    assert nodes.received("n2", "n1") == ["c", "c"]


def test_rules_of_a_link_add_up(nodes: Nodes) -> None:
    nodes.fabric.lossy("n1", "n2", duplicate=1.0)
    nodes.fabric.slow("n1", "n2", delay_s=3_600.0)
    nodes.send("n1", "n2", "a")
    assert nodes.received("n1", "n2") == ["a", "a"]
    assert nodes.fabric.rule("n1", "n2").delay_s == 0


@pytest.mark.slow  # makes three fabrics
def test_seed_draws_what_is_lost() -> None:
    def survivors(seed: int) -> list[str]:
        with running("n1", "n2", seed=seed) as nodes:
            nodes.fabric.lossy("n1", "n2", loss=0.3)
            nodes.send("n1", "n2", *_numbered(100))
            return nodes.received("n1", "n2")

    assert survivors(1) == survivors(1) != survivors(2)


def test_run_starts_a_command_with_its_folder_environment_and_log(
    nodes: Nodes, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    program = "import os, sys; print(os.getpid(), os.getcwd(), os.environ['WORD']); sys.exit(3)"
    process = nodes.fabric.run(
        "n1", [sys.executable, "-c", program], cwd=tmp_path, env={"WORD": "said"}, log=log
    )
    assert process.wait(30) == 3
    # The pid is its own: a signal sent to it reaches nothing in between.
    assert log.read_text(encoding="utf-8").split() == [str(process.pid), str(tmp_path), "said"]


def test_fabric_says_that_its_switch_has_ended() -> None:
    with running("n1") as nodes:
        nodes.fabric.switch.kill()
        nodes.fabric.switch.wait(30)
        with pytest.raises(Unable, match="the switch has ended"):
            nodes.fabric.heal()


def test_enter_is_for_those_who_start_processes_themselves(nodes: Nodes) -> None:
    def interfaces(node: str) -> str:
        command = nodes.fabric.enter(node, ["ip", "-brief", "address", "show", "eth0"])
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert f"{nodes.fabric.address('n2')}/24" in interfaces("n2")
    assert f"{nodes.fabric.address('n2')}/24" not in interfaces("n1")
