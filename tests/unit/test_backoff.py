"""Pauses between tries double up to a bound, and are drawn between its half and its whole."""

from __future__ import annotations

from raftbatch.backoff import backoff_s


def test_backoff_doubles_up_to_its_bound_and_is_drawn_within_it() -> None:
    wholes = [backoff_s(tries, 0.5, 3.0, 1.0) for tries in range(1, 6)]
    assert wholes == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [backoff_s(tries, 0.5, 3.0, 0.0) for tries in range(1, 6)] == [
        each / 2 for each in wholes
    ]
    assert backoff_s(10**9, 0.5, 3.0, 0.5) == 2.25
