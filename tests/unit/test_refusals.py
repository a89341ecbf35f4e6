"""Who was refused is told once, and strangers' names fill no memory."""

import logging

import pytest

from coordinator.raft.refusals import PEERS_MAX, Refusals


def test_refusals_forget_the_oldest_beyond_their_bound() -> None:
    refusals = Refusals()
    for number in range(PEERS_MAX + 10):
        refusals.note(f"stranger {number}", "other_node", "another")
    assert list(refusals.by_peer) == [f"stranger {number}" for number in range(10, PEERS_MAX + 10)]


def test_refusal_that_comes_again_is_among_the_newest() -> None:
    refusals = Refusals()
    refusals.note("first", "other_node", "another")
    for number in range(PEERS_MAX - 1):
        refusals.note(f"stranger {number}", "other_node", "another")
    refusals.note("first", "other_node", "another")
    refusals.note("new", "other_node", "another")
    assert refusals.by_peer["first"].times == 2
    assert len(refusals.by_peer) == PEERS_MAX


def test_refusal_is_logged_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for reason in ("other_node", "other_node", "draining"):
            refusals.note("n2", reason, "another")
        refusals.clear("n2")
        refusals.note("n2", "draining", "another")
    assert [record.message for record in caplog.records] == ["peer.refused"] * 3
