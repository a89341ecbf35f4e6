"""What simulated executors report: outcomes, whole or in parts, and failures of a batch.

What lives here: the records. What must never live here: when they are sent. Called
by: `chaos.suites.scheduler_executor`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.suites.scheduler_holdings import Held
from chaos.suites.scheduler_requests import Kind, kind_of
from raftbatch import records as r
from raftbatch.kinds import LapseReason, OutcomeKind, Ran

_CODES = {Kind.FAILS: "bad_row", Kind.LARGE: "result_too_large"}


def completes(
    held: Held,
    executor: str,
    incarnation: int,
    rows: Mapping[int, bytes],
    parts: int,
    infer_ns: int,
) -> list[r.Complete]:
    """Return the report of a batch that ran, in so many parts, of which each names something.

    Args:
        held: with its results.
        executor, incarnation: who ran it.
        rows: payloads that ran, by number.
        parts: at most.
        infer_ns: how long it ran.
    """
    numbers = list(rows)
    size = max(1, -(-len(numbers) // parts))
    chunks = [numbers[at : at + size] for at in range(0, len(numbers), size)] or [[]]
    results = held.results or {}
    report = []
    for place, chunk in enumerate(chunks):
        kinds = [results[number][0] for number in chunk]
        codes = [
            "" if kind is OutcomeKind.OK else _CODES[kind_of(rows[number])]
            for kind, number in zip(kinds, chunk, strict=True)
        ]
        report.append(
            r.Complete(
                held.given.batch,
                held.given.attempt,
                held.given.fence,
                executor,
                incarnation,
                place == len(chunks) - 1,
                0,
                0,
                infer_ns,
                0,
                (len(numbers),),
                b"",
                tuple(chunk),
                tuple(map(int, kinds)),
                tuple(codes),
                tuple(["the model says so" if code else "" for code in codes]),
                tuple([results[number][1] for number in chunk]),
            )
        )
    return report


def failure(held: Held, why: str) -> r.Lapse:
    """Return that a batch failed as a whole."""
    given = held.given
    return r.Lapse(
        given.batch,
        given.attempt,
        given.fence,
        LapseReason.FAILED,
        Ran.YES,
        True,
        "model_failed",
        why,
    )


def has(rows: Mapping[int, bytes], kind: Kind) -> bool:
    """Return whether a payload of a kind is among rows."""
    return any(kind_of(payload) is kind for payload in rows.values())
