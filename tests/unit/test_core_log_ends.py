"""The facade of one node: what is bounded while it lives, and who is answered when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.raft.applying import _APPLY_ENTRIES_MAX
from coordinator.raft.membership import Rank
from coordinator.raft.messages import Outgoing, TimeoutNow
from coordinator.raft.segments.layout import Entry
from raftbatch.errors import Fatal, NotLeader, OutcomeUnknown, RaftbatchError
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N2
from tests.unit.test_core_log import Bench, NoPeers, Words


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualLoop() as loop:
        yield Bench(loop)


def answered_at_the_end(bench: Bench, wait: Callable[[], Awaitable[object]]) -> object:
    """Wait for something that never comes, let the log be closed, and return what it came to."""

    async def waited() -> object:
        try:
            return await wait()
        except (RaftbatchError, Fatal) as error:
            return error

    task = bench.loop.create_task(waited())
    bench.loop.run_for(0.001)
    assert not task.done(), "it waits"
    bench.world.call(bench.log.close)
    return bench.loop.run_until_complete(asyncio.wait_for(task, 1.0))


def test_barrier_that_waits_to_be_applied_is_answered_when_the_log_ends(bench: Bench) -> None:
    driver = bench.log._driver
    found: asyncio.Future[int] = bench.loop.create_future()
    driver.barriers.append((bench.log.applied + 1, found))
    error = answered_at_the_end(bench, lambda: found)
    assert isinstance(error, OutcomeUnknown)


def test_barrier_that_waits_for_others_is_answered_when_the_log_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    replication = bench.log._core.replication
    assert replication is not None
    monkeypatch.setattr(replication, "answered_round", lambda: 0)
    error = answered_at_the_end(bench, bench.log.barrier)
    assert isinstance(error, NotLeader)


def test_transfer_is_answered_when_the_log_ends(bench: Bench) -> None:
    ended: asyncio.Future[bool] = bench.loop.create_future()
    bench.log._core.transfer.begin(N2, ended.set_result)
    assert answered_at_the_end(bench, lambda: ended) is False


def test_log_is_synced_once_all_that_was_appended_is_durable(bench: Bench) -> None:
    journal = bench.log._driver.journal
    bench.propose(b"x")
    appended = journal.lsn
    assert journal.durable < appended
    assert bench.outcome(bench.log.synced) is None
    assert journal.durable >= appended
    assert bench.outcome(bench.log.synced) is None


def test_who_waits_for_the_disk_is_answered_when_the_log_ends(bench: Bench) -> None:
    ended: asyncio.Future[None] = bench.loop.create_future()
    bench.log._driver.syncing.append((bench.log._driver.journal.lsn + 1, ended))
    assert answered_at_the_end(bench, lambda: ended) is None
    assert bench.outcome(bench.log.synced) is None


def test_messages_that_wait_for_the_disk_are_bounded_and_the_oldest_go(bench: Bench) -> None:
    driver = bench.log._driver
    durable = driver.journal.durable
    most = 10_000
    for term in range(most + 7):
        driver.core.standing.outbox.append(Outgoing(N2, TimeoutNow(term), durable + 1))
    driver._release()
    assert len(driver.held) == most
    assert driver.held[0].message == TimeoutNow(7)


def test_turn_of_the_loop_applies_no_more_than_some_entries(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a node with much to apply, as after a start, would neither vote nor acknowledge."""
    apply, turns = Words.apply, [0]

    def counting(words: Words, entry: Entry) -> None:
        if not turns[-1]:
            bench.loop.call_soon(turns.append, 0)
        turns[-1] += 1
        apply(words, entry)

    monkeypatch.setattr(Words, "apply", counting)
    words = [b"%d" % number for number in range(1000)]
    for begin in range(0, len(words), 200):
        last = [bench.propose(word) for word in words[begin : begin + 200]][-1]
        assert bench.outcome(last.committed) is None
    assert bench.replica.words == words
    assert sum(turns) >= 1000
    assert max(turns) <= 2 * _APPLY_ENTRIES_MAX
    turns[:] = [0]
    bench.machine.kill(power=True)
    bench.start()
    assert bench.replica.words == words
    assert max(turns) <= 2 * _APPLY_ENTRIES_MAX


def test_peer_whose_life_is_over_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[NodeId] = []
    monkeypatch.setattr(NoPeers, "drop", lambda self, peer: dropped.append(peer))
    monkeypatch.setattr(NoPeers, "send", lambda self, peer, message: None)
    with VirtualLoop() as loop:
        bench = Bench(loop)
        for _ in range(2):  # the second time in place of the first
            assert bench.outcome(lambda: bench.log.add(N2, "n2:1", Rank.LEARNER)) is not None
        bench.world.call(bench.log.connected, N2, 2)
        bench.loop.run_for(1.0)
        assert dropped == []
        bench.world.call(bench.log.disconnected, N2)
        assert bench.failures == []
        bench.world.call(bench.log.connected, N2, 1)
        bench.loop.run_for(1.0)
        assert N2 in dropped
