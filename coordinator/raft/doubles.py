"""Two processes that take themselves for one node: told once, clearly.

Where a data directory was copied, both show the same name and the same life. Each
takes the place of the other's connection, which calls again and takes it back: a
cluster that flaps, with nothing in its log but connections. A life that takes its
own connection's place once may have lost that one unnoticed; again and again, and
soon each time, it is two.

What lives here: when to think so, and what to say. What must never live here: what
becomes of a connection. Called by: `transport`.
"""

from __future__ import annotations

import logging

from coordinator.raft.refusals import Refusal
from raftbatch.ids import NodeId

_LOG = logging.getLogger(__name__)

TIMES = 5
"""So often in a row it is no accident."""

WITHIN_MS = 10_000
"""Several of the longest pauses between two calls."""


def doubt(
    node: NodeId, incarnation: int, places: tuple[str, str], before: Refusal | None
) -> Refusal:
    """Take in that a life has soon taken the place of its own connection; log it when it is due.

    Args:
        node, incarnation: which life.
        places: where the old and the new connection come from.
        before: what this returned the last time; None where that connection stayed long enough.

    Returns:
        what `is_two` judges, with a text for the operator.
    """
    text = (
        f"two processes seem to be {node}, incarnation {incarnation}, at {places[0]} and at "
        f"{places[1]}: each takes the other's connection. One of them runs on a copy of the "
        "other's data directory: stop it, and never start it again"
    )
    found = Refusal("doubled", text, before.times + 1 if before is not None else 1)
    if found.times == TIMES:
        _LOG.warning("peer.doubled", extra={"fields": {"peer": node, "text": text}})
    return found


def is_two(doubted: Refusal | None) -> bool:
    """Return whether there are two. Total. Deterministic."""
    return doubted is not None and doubted.times >= TIMES
