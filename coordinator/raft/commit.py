"""When an entry is committed. Pure; called by `replication`.

Source: Raft paper, 5.3 and 5.4.2 (figure 8).
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.raft.ports import Log


def majority_at(values: Iterable[int], quorum: int) -> int:
    """Return the highest value that `quorum` of the values reach. Total. Deterministic."""
    return sorted(values, reverse=True)[quorum - 1]


def committed(held: Iterable[int], quorum: int, log: Log, term: int, commit: int) -> int:
    """Return the leader's commit index.

    Args:
        held: for each voter, the leader included, up to where it durably holds
            the leader's log. The leader's own entry counts like any other:
            not before it is durable.
        quorum: how many make a majority.
        log: the leader's.
        term: the leader's. Only an entry of it is committed by counting; with
            it, all before.
        commit: as known so far.
    """
    index = majority_at(held, quorum)
    return index if index > commit and log.term(index) == term else commit
