"""Texts of requests and outcomes, in so far as they take more than is allowed for each.

Limits count payloads, results and ids. A row of the state takes some bytes beside these, which
are allowed for (`coordinator.limits`). Names, signatures, trace contexts, and what executors say
of themselves, may be longer than that: what they take beyond it is counted here, in bytes of
UTF-8, and the leader counts it toward the same limits (`room`). `apply` judges nothing by it: so
older logs mean what they meant.

What lives here: that measure. What must never live here: a limit, or a refusal. Called by: the
core; the leader, for what is about to come. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.values import Outcome, Run
from raftbatch.kinds import Key

KNOWN_ID_BYTES = 128
"""What is allowed for an id: what is left of its outcome, 123 at most with a short name."""

WAITING_BYTES = 288
"""And beside that for a waiting request, its row and that of its batch: 242 with short texts, and
40 for why the batch failed."""

NAME_BYTES = 48
"""Of tenant and request id: a UUID of a tenant with eleven letters."""

TEXTS_BYTES = 160
"""Of batch key, which stands in the request and in its batch, and trace context."""

RUN_BYTES = 128
"""Of the run that gave an outcome, beside what an outcome is counted as (`OUTCOME_BYTES`)."""

_RUN_NUMBERS_BYTES = 76
_NUMBER_BYTES = 9


def size_of(text: str) -> int:
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode())


def of_name(name: str) -> int:
    """Return what tenant, NUL and request id take beyond what is allowed."""
    return max(0, size_of(name) - NAME_BYTES)


def of_names(names: Sequence[str]) -> int:
    """Return the same of many in all: mostly 0, which is seen at once."""
    if max(map(len, names), default=0) <= NAME_BYTES and "".join(names).isascii():
        return 0
    return sum(map(of_name, names))


def of_request(key: Key, traceparent: str) -> int:
    """Return what key and trace context of a waiting request take beyond what is allowed."""
    return max(0, 2 * sum(map(size_of, key)) + size_of(traceparent) - TEXTS_BYTES)


def of_requests(keys: Sequence[Key], traceparents: Sequence[str]) -> list[int]:
    """Return the same of each of many.

    Args:
        keys: of each.
        traceparents: of each.
    """
    twice = {key: 2 * sum(map(size_of, key)) - TEXTS_BYTES for key in dict.fromkeys(keys)}
    sizes = map(len if "".join(traceparents).isascii() else size_of, traceparents)
    return [max(0, twice[key] + size) for key, size in zip(keys, sizes, strict=True)]


def are_short(keys: Sequence[Key], traceparents: Sequence[str]) -> bool:
    """Return whether none of the requests takes more than is allowed, seen at once.

    Args:
        keys: all that there are.
        traceparents: of each request.
    """
    longest = 2 * max([sum(map(size_of, key)) for key in keys], default=0)
    longest += max(map(len, traceparents), default=0)
    return longest <= TEXTS_BYTES and "".join(traceparents).isascii()


def of_all(key: Key, traceparents: Sequence[str]) -> int:
    """Return what all requests of one key take beyond what is allowed for each."""
    return (
        0
        if are_short((key,), traceparents)
        else sum(of_requests([key] * len(traceparents), traceparents))
    )


def of_code(code: str) -> int:
    """Return what the code of an outcome takes, for as long as its id is known."""
    return size_of(code)


def of_run(run: Run | None) -> int:
    """Return what a run takes beyond what is allowed; less than 0 where it leaves room."""
    if run is None:
        return -RUN_BYTES
    said = size_of(run.executor) + len(run.fingerprint) + _NUMBER_BYTES * len(run.padded)
    return _RUN_NUMBERS_BYTES + said - RUN_BYTES


def of_message(message: str) -> int:
    """Return what a message takes beyond its characters, which are counted."""
    return 0 if message.isascii() else len(message.encode()) - len(message)


def of_outcome(outcome: Outcome) -> int:
    """Return what run and message of an outcome take beyond what is allowed, while it is kept."""
    if not outcome.is_kept:
        return 0
    return max(0, of_run(outcome.run)) + of_message(outcome.message)
