"""Known bugs of the core that the whole finds too: by seeds of suite `scheduler`, or a replay.

What lives here: the list. What must never live here: an import of the product. Called
by: `chaos.mutants`.
"""

from __future__ import annotations

from chaos.mutants_core import CORE
from chaos.mutation import Mutant

_CORE = "coordinator.core."
_REPLAYED = "tests/replay/test_replay.py::test_log_replays_to_the_same_digests"

_SEEDS = {
    "dedupe-off": 3,
    "content-not-compared": 0,
    "one-more-than-the-limit": 8,
    "rows-not-counted-in-limits": 28,
    "cancel-of-unknown-id-forgotten": 2,
    "late-request-assigned": 12,
    "lapse-without-attempt": 0,
    "death-always-a-failure": 0,
    "lapsed-slot-returned-at-once": 6,
    "bisected-out-of-order": 16,
    "half-of-several-with-all-attempts": 16,
    "slot-freed-with-the-first-part": 7,
    "restarted-executor-keeps-its-assignments": 0,
    "drained-executor-gets-new-batches": 1,
    "halves-suspend-an-executor": 16,
    "id-forgotten-with-its-outcome": 7,
    "captured-table-written-to": 18,
    "priority-never-rises": 0,
    "overtaken-in-a-batch": 0,
    "slot-in-flight-taken-twice": 0,
    "lapse-in-flight-foreseen-as-free": 13,
    "suspension-not-expected": 32,
}
"""Bugs of the core's rules that the checkers of the whole find too, each with a seed."""

WHOLE = [
    Mutant(f"whole-{each.name}", each.module, each.old, each.new, _SEEDS[each.name])
    for each in CORE
    if each.name in _SEEDS
]

REPLAYED = [
    Mutant(
        "digest-of-less",
        _CORE + "digest",
        "        state.oldest_ended,\n",
        "",
        _REPLAYED,
    ),
    Mutant(
        "old-log-means-something-else",
        _CORE + "batches",
        "    middle = (len(left) + 1) // 2\n",
        "    middle = len(left) // 2\n",
        _REPLAYED,
    ),
    Mutant(
        "old-snapshot-read-otherwise",
        _CORE + "snapshot",
        "(state.next_request, state.next_batch, state.next_ended) = values[6:9]",
        "(state.next_request, state.next_ended, state.next_batch) = values[6:9]",
        "tests/replay/test_replay.py::test_log_behind_the_snapshot_replays_to_the_same_digests",
    ),
    Mutant(
        "record-renumbered",
        "raftbatch.codec",
        "    20: (r.DeleteModel,",
        "    23: (r.DeleteModel,",
        _REPLAYED,
    ),
]
"""What an older version wrote would mean something else, or could not be read."""
