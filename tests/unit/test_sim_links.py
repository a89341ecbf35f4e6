"""Simulated links: each fault does what it says, and the contract holds through those within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal

import pytest

from chaos.worlds import cuts
from chaos.worlds.ends import Port
from chaos.worlds.hooks import Crash
from chaos.worlds.links import LinkOptions, Links, Pair
from chaos.worlds.loop import VirtualLoop
from raftbatch.ids import NodeId

A, B, C, D, E = (NodeId(name) for name in "abcde")
SOON_S = 1.0  # long enough to connect and for a message to arrive


class End:
    """A process that writes down what it hears."""

    def __init__(self, links: Links, loop: VirtualLoop, node: NodeId, incarnation: int = 1) -> None:
        self.incarnation = incarnation
        self.over: dict[tuple[NodeId, int], str] = {}
        self.process = loop.spawn(node)
        self.port: Port = links.open(node, self.process)
        self.heard: list[str] = []
        self.links: list[str] = []
        self.port.register(self)

    def receive(self, peer: NodeId, message: object) -> None:
        """Note `peer:message`."""
        self.heard.append(f"{peer}:{message}")

    def admits(self, peer: NodeId, incarnation: int) -> str | None:
        """Admit all but those that are over."""
        return self.over.get((peer, incarnation))

    def refused(self, peer: NodeId, why: str) -> None:
        """Note `peer!why`."""
        self.links.append(f"{peer}!{why}")

    def connected(self, peer: NodeId, incarnation: int) -> None:
        """Note `+peer`, and which life of it if it is not the first."""
        self.links.append(f"+{peer}{'' if incarnation == 1 else incarnation}")

    def disconnected(self, peer: NodeId) -> None:
        """Note `-peer`."""
        self.links.append(f"-{peer}")

    def send(self, peer: NodeId, *messages: object) -> None:
        """Send, as the process."""
        for message in messages:
            self.process.call(self.port.send, peer, message)


class Bench:
    """Some ends, connected."""

    def __init__(
        self, loop: VirtualLoop, nodes: Sequence[NodeId], options: LinkOptions, seed: int = 1
    ) -> None:
        self.loop = loop
        self.links = Links(loop, Random(seed), options)
        self.ends = {node: End(self.links, loop, node) for node in nodes}
        loop.run_for(SOON_S)

    def __getitem__(self, node: NodeId) -> End:
        """Return a node's end."""
        return self.ends[node]

    def die(self, node: NodeId, *, silent: bool = False) -> None:
        """Let a process die."""
        self[node].process.kill()
        self.links.close(node, silent=silent)

    def restart(self, node: NodeId, incarnation: int = 1) -> None:
        """Begin another."""
        self.ends[node] = End(self.links, self.loop, node, incarnation)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


@pytest.fixture
def bench(loop: VirtualLoop) -> Bench:
    return Bench(loop, (A, B, C), LinkOptions())


def test_ends_are_told_of_their_connections(bench: Bench) -> None:
    assert sorted(bench[A].links) == ["+b", "+c"]
    assert bench[A].port.is_connected(B)
    assert not bench[A].port.is_connected(A)


def test_messages_arrive_once_and_in_order_and_not_at_once(bench: Bench) -> None:
    bench[A].send(B, *range(200))
    assert bench[B].heard == []
    bench.loop.run_for(SOON_S)
    assert bench[B].heard == [f"a:{number}" for number in range(200)]


def test_messages_are_handed_on_as_they_are_or_as_the_wire_makes_them(loop: VirtualLoop) -> None:
    bench = Bench(loop, (A, B), LinkOptions())
    received: list[object] = []
    bench[B].receive = lambda peer, message: received.append(message)  # type: ignore[method-assign]
    message = ["mutable"]
    bench[A].send(B, message)
    loop.run_for(SOON_S)
    assert received[0] is message
    bench.links.wire = lambda message: [*message] if isinstance(message, list) else message
    bench[A].send(B, message)
    message.append("changed after it was sent")
    loop.run_for(SOON_S)
    assert received[1] == ["mutable"]


def test_send_without_a_connection_is_dropped(bench: Bench) -> None:
    told: list[str] = []
    bench.links.observer = lambda what, sender, receiver, message: told.append(what)
    bench[A].send(D, "nobody")
    bench[A].process.kill()
    bench[A].port.send(B, "from the dead")
    assert told == ["drop"]


def test_broken_link_is_noticed_by_both_and_comes_again(bench: Bench) -> None:
    bench.links.break_link(A, B)
    bench.loop.run_for(3.0)
    for end, peer in ((A, "b"), (B, "a")):
        mine = [each for each in bench[end].links if each.endswith(peer)]
        assert mine == [f"+{peer}", f"-{peer}", f"+{peer}"]
    assert [each for each in bench[C].links if each[0] == "-"] == []


def test_broken_link_loses_all_but_a_prefix_and_nothing_comes_after_the_reconnect(
    loop: VirtualLoop,
) -> None:
    prefixes: list[int] = []
    for seed in range(40):
        bench = Bench(loop, (A, B), LinkOptions(notice_s=(0.0, 0.002)), seed)
        bench.links.break_link(A, B)
        bench[A].send(B, *range(100))
        loop.run_for(3.0)
        heard = bench[B].heard
        assert heard == [f"a:{number}" for number in range(len(heard))]
        assert bench[B].links[-2:] == ["-a", "+a"]
        prefixes.append(len(heard))
    assert {0, 100} & set(prefixes)
    assert any(0 < prefix < 100 for prefix in prefixes)


def test_cut_holds_one_direction_back_in_order(bench: Bench) -> None:
    heal = bench.links.cut([(A, B)])
    bench[A].send(B, 1, 2)
    bench[B].send(A, 3)
    bench.loop.run_for(SOON_S)
    assert (bench[A].heard, bench[B].heard) == (["b:3"], [])
    bench[A].send(B, 4)
    heal()
    heal()
    bench[A].send(B, 5)
    bench.loop.run_for(SOON_S)
    assert bench[B].heard == ["a:1", "a:2", "a:4", "a:5"]
    assert "-b" not in bench[A].links


def test_overlapping_cuts_heal_apart(bench: Bench) -> None:
    first, second = bench.links.cut([(A, B)]), bench.links.cut([(A, B)])
    bench[A].send(B, 1)
    first()
    bench.loop.run_for(SOON_S)
    assert bench[B].heard == []
    second()
    bench.loop.run_for(SOON_S)
    assert bench[B].heard == ["a:1"]


def test_sender_gives_up_on_a_long_cut_and_the_half_open_end_is_replaced(bench: Bench) -> None:
    heal = bench.links.cut([(A, B)])
    bench[A].send(B, 1)
    bench.loop.run_for(5.0)
    assert bench[A].links[-1] == "-b"
    assert "-a" not in bench[B].links, "the receiver has heard of nothing"
    heal()
    bench.loop.run_for(3.0)
    assert bench[A].links[-1] == "+b"
    assert [each for each in bench[B].links if each.endswith("a")] == ["+a", "-a", "+a"]
    assert bench[B].heard == []


def test_heal_ends_every_fault(bench: Bench) -> None:
    one = bench.links.cut(cuts.around(A, (A, B, C)))
    bench.links.slow([(A, C)], 100.0)
    bench[A].send(B, 1)
    bench.links.heal()
    one()  # too late to do harm
    bench[A].send(C, 2)
    bench.loop.run_for(SOON_S)
    assert (bench[B].heard, bench[C].heard) == (["a:1"], ["a:2"])
    bench.links.cut([(A, B)])
    bench[A].send(B, 3)
    bench.loop.run_for(SOON_S)
    assert bench[B].heard == ["a:1"]


def test_slow_link_delays(bench: Bench) -> None:
    heal = bench.links.slow([(A, B)], 2.0)
    bench[A].send(B, 1)
    bench[A].send(C, 2)
    bench.loop.run_for(1.9)
    assert (bench[B].heard, bench[C].heard) == ([], ["a:2"])
    bench.loop.run_for(0.2)
    assert bench[B].heard == ["a:1"]
    heal()
    bench[A].send(B, 3)
    bench.loop.run_for(0.1)
    assert bench[B].heard == ["a:1", "a:3"]


def test_peers_of_a_dead_process_notice_soon_and_meet_the_next_one(bench: Bench) -> None:
    bench.die(A)
    bench.loop.run_for(0.1)
    assert (bench[B].links[-1], bench[C].links[-1]) == ("-a", "-a")
    assert bench[A].links == ["+b", "+c"] or bench[A].links == ["+c", "+b"]
    bench.restart(A)
    bench.loop.run_for(SOON_S)
    assert (bench[B].links[-1], bench[C].links[-1]) == ("+a", "+a")
    assert sorted(bench[A].links) == ["+b", "+c"]


@pytest.mark.parametrize(("reset_chance", "heard"), [(0.0, ["a:last words"]), (1.0, [])])
def test_last_words_of_a_process_are_heard_unless_reset(
    loop: VirtualLoop, reset_chance: float, heard: list[str]
) -> None:
    options = LinkOptions(reset_chance=reset_chance, notice_s=(0.0, 0.0001), delay_s=(0.001, 0.002))
    bench = Bench(loop, (A, B), options)
    bench[A].send(B, "last words")
    bench.die(A)
    loop.run_for(SOON_S)
    assert bench[B].heard == heard
    assert bench[B].links[-1] == "-a"


def test_message_to_a_dead_process_never_reaches_the_next_one(bench: Bench) -> None:
    bench[B].send(A, *range(5))
    bench.die(A)
    bench.restart(A)
    bench.loop.run_for(3.0)
    assert bench[A].heard == []
    assert bench[B].links[-2:] == ["-a", "+a"]


def test_ends_are_told_which_life_of_a_peer_is_connected(bench: Bench) -> None:
    bench.die(B)
    bench.restart(B, incarnation=2)
    bench.loop.run_for(SOON_S)
    assert bench[A].links[-1] == "+b2"
    assert "+a" in bench[B].links


def test_end_that_is_not_admitted_is_told_so_and_not_connected(bench: Bench) -> None:
    bench[A].over[B, 1] = "removed"
    assert bench[A].port.is_connected(B), "it is connected still"
    bench[A].process.call(bench[A].port.drop, B)
    bench.loop.run_for(SOON_S)
    assert not bench[A].port.is_connected(B)
    assert bench[A].links[-1] == "-b"
    assert bench[B].links[-1] == "a!removed"
    bench.die(B)
    bench.restart(B, incarnation=2)
    bench.loop.run_for(SOON_S)
    assert bench[A].port.is_connected(B)


def test_stale_messages_of_an_earlier_life_never_come(loop: VirtualLoop) -> None:
    """Not even outside the contract: a connection that is tied to a life is nothing else's."""
    bench = Bench(loop, (A, B), LinkOptions(stale=1.0, delay_s=(0.5, 0.5), reset_chance=0.0))
    bench[A].send(B, "late")
    bench.links.break_link(A, B)
    bench.die(A)
    bench.restart(A, incarnation=2)
    loop.run_for(5 * SOON_S)
    assert bench[B].port.is_connected(A)
    assert bench[B].heard == []


def test_silent_machine_is_noticed_by_those_who_send_to_it_and_late(bench: Bench) -> None:
    bench.die(A, silent=True)
    bench[B].send(A, "are you there")
    bench.loop.run_for(3.0)
    assert "-a" not in bench[B].links
    bench.loop.run_for(2.0)
    assert bench[B].links[-1] == "-a"
    assert "-a" not in bench[C].links, "whoever says nothing learns nothing"
    bench.restart(A)
    bench.loop.run_for(SOON_S)
    assert bench[C].links[-2:] == ["-a", "+a"]


def test_closing_is_held_back_by_a_cut_too(bench: Bench) -> None:
    heal = bench.links.cut([(A, B)])
    bench.die(A)
    bench.loop.run_for(SOON_S)
    assert ("-a" in bench[B].links, "-a" in bench[C].links) == (False, True)
    heal()
    bench.loop.run_for(SOON_S)
    assert "-a" in bench[B].links


def test_paused_process_finds_all_that_arrived(bench: Bench) -> None:
    bench[A].process.pause()
    bench[B].send(A, 1, 2)
    bench.loop.run_for(SOON_S)
    bench.links.break_link(A, B)
    bench.loop.run_for(5.0)
    assert bench[A].heard == []
    bench[A].process.resume()
    bench.loop.run_for(SOON_S)
    assert bench[A].heard == ["b:1", "b:2"]
    assert bench[A].links[-2:] == ["-b", "+b"]


@pytest.mark.parametrize(("stale", "heard"), [(0.0, False), (1.0, True)])
def test_stale_messages_come_only_where_they_are_asked_for(
    loop: VirtualLoop, stale: float, heard: bool
) -> None:
    bench = Bench(loop, (A, B), LinkOptions(stale=stale, reset_chance=1.0, delay_s=(0.05, 0.05)))
    told: list[str] = []
    bench.links.observer = lambda what, *_: told.append(what)
    bench[A].send(B, "old")
    bench.links.break_link(A, B)
    loop.run_for(5.0)
    assert (bench[B].heard == ["a:old"], "stale" in told) == (heard, heard)
    assert bench[B].links == ["+a", "-a", "+a"]


def test_links_beyond_their_contract_lose_repeat_and_reorder(loop: VirtualLoop) -> None:
    bench = Bench(loop, (A, B), LinkOptions(loss=0.2, duplicate=0.2, reorder=0.2))
    sent = [f"a:{number}" for number in range(200)]
    bench[A].send(B, *range(200))
    loop.run_for(3.0)
    heard = bench[B].heard
    assert set(heard) < set(sent)
    assert len(heard) > len(set(heard))
    assert list(dict.fromkeys(heard)) != [word for word in sent if word in heard]


@pytest.mark.parametrize(("when", "heard"), [("before", []), ("after", ["a:x"])])
def test_process_can_die_around_a_send(
    bench: Bench, when: Literal["before", "after"], heard: list[str]
) -> None:
    bench.links.options = LinkOptions(reset_chance=0.0)

    def die(moment: Literal["before", "after"], peer: NodeId, message: object) -> None:
        if moment == when:
            bench.die(A)
            raise Crash(moment)

    bench.links.send_hooks[A] = die
    with pytest.raises(Crash):
        bench[A].send(B, "x")
    bench.loop.run_for(SOON_S)
    assert bench[B].heard == heard
    assert bench[B].links[-1] == "-a"


def test_cuts_have_the_shapes_they_say() -> None:
    nodes = (A, B, C, D, E)

    def names(pairs: Sequence[Pair]) -> str:
        return " ".join(sorted(f"{one}{other}" for one, other in pairs))

    assert names(cuts.around(A, (A, B, C))) == "ab ac ba ca"
    assert names(cuts.deaf(A, (A, B, C))) == "ba ca"
    assert names(cuts.mute(A, (A, B, C))) == "ab ac"
    assert names(cuts.between((A, B), (C,))) == "ac bc ca cb"
    assert names(cuts.bridge(A, (A, B), (C,))) == "bc cb"
    assert names(cuts.ring(nodes)) == "ac ad bd be ca ce da db eb ec"
    assert cuts.ring((A, B, C)) == []
