"""The facade of one node: what replicas tell each other beside the log, and to whom it matters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.raft.membership import Rank
from coordinator.raft.messages import Digests, PeerMessage
from raftbatch.errors import Diverged
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N2, N3
from tests.unit.test_core_log import Bench

TOLD = Digests(((7, b"digest"),))


class Heard:
    """Whoever compares.

    Attributes:
        said: what was told, and by whom.
        came: who has connected.
        error: raised when something is told; None: nothing is.
    """

    def __init__(self) -> None:
        self.said: list[tuple[NodeId, Digests]] = []
        self.came: list[NodeId] = []
        self.error: Diverged | None = None

    def take(self, peer: NodeId, digests: Digests) -> None:
        """Take in what a member told."""
        self.said.append((peer, digests))
        if self.error is not None:
            raise self.error


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A node with a learner n2, to which nothing is sent but what these tests are about."""
    with VirtualLoop() as loop:
        bench = Bench(loop)
        bench.outcome(lambda: bench.log.add(N2, "n2:1", Rank.LEARNER))
        sent: list[tuple[NodeId, PeerMessage]] = []
        monkeypatch.setattr(bench.peers, "send", lambda *message: sent.append(message))
        monkeypatch.setattr(bench, "sent", sent, raising=False)
        yield bench


def told(bench: Bench) -> list[tuple[NodeId, PeerMessage]]:
    """Return the digests that were sent."""
    sent: list[tuple[NodeId, PeerMessage]] = bench.sent  # type: ignore[attr-defined]
    return [(peer, each) for peer, each in sent if isinstance(each, Digests)]


def test_digests_of_a_members_present_life_are_handed_on(bench: Bench) -> None:
    heard = Heard()
    call, log = bench.world.call, bench.log
    call(log.receive, N2, TOLD)  # nobody asked for them
    call(log.connected, N2, 1)
    call(log.hear, heard.take, heard.came.append)
    call(log.receive, N2, TOLD)
    assert heard.said == [(N2, TOLD)]
    call(log.disconnected, N2)
    call(log.receive, N2, TOLD)
    call(log.connected, N2, 7)  # another life of that name, which is no member
    call(log.receive, N2, TOLD)
    call(log.connected, N3, 1)  # a stranger
    call(log.receive, N3, TOLD)
    assert heard.said == [(N2, TOLD)]
    assert heard.came == [N2, N3]  # what an earlier life of it told is over
    call(log.disconnected, N2)
    call(log.connected, N2, 1)
    assert heard.came == [N2, N3, N2]
    assert bench.failures == []


def test_digests_are_told_at_once_and_change_nothing_of_consensus(bench: Bench) -> None:
    term, commit = bench.log.term, bench.log.commit
    bench.world.call(bench.log.tell, N2, TOLD)
    assert told(bench) == [(N2, TOLD)]
    bench.world.call(bench.log.connected, N2, 1)
    bench.world.call(bench.log.receive, N2, TOLD)
    bench.loop.run_for(1.0)
    assert (bench.log.term, bench.log.commit) == (term, commit)


def test_node_that_finds_that_it_differs_stops(bench: Bench) -> None:
    heard = Heard()
    heard.error = Diverged("other digests")
    bench.world.call(bench.log.connected, N2, 1)
    bench.world.call(bench.log.hear, heard.take, heard.came.append)
    bench.world.call(bench.log.receive, N2, TOLD)
    assert bench.failures == [heard.error]
    assert bench.log.failure is heard.error
    bench.world.call(bench.log.tell, N2, TOLD)
    bench.world.call(bench.log.receive, N2, TOLD)
    assert told(bench) == []
    assert len(heard.said) == 1
