"""Where two logs may part: how a leader finds it in a round trip a term, not one an entry.

What lives here: the search that both sides make in their own log. What must never
live here: a message. Called by: `appending` (the follower skips what is above the
leader's term there), `replication` (the leader skips what is above the follower's).
Source: Raft paper, 5.3, the end of the section; docs/RAFT.md, fault 27.
"""

from __future__ import annotations

from coordinator.raft.ports import Log


def last_of_term(log: Log, term: int, low: int, high: int) -> int:
    """Return the highest index of `low` to `high` whose term is at most `term`, else `low`.

    Terms never fall along a log, so the range is halved: a conflict may be a
    million entries long. What is gone from the log counts as of an earlier term.
    Total. Deterministic.
    """
    while low < high:
        middle = (low + high + 1) // 2
        if (log.term(middle) or 0) <= term:
            low = middle
        else:
            high = middle - 1
    return low
