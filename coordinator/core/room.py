"""Whether there is room for more, as a leader counts it: with what texts take beyond their due.

`apply` counts ids and bytes without these (`admission`, `retention`): older logs mean what they
meant. So a leader refuses sooner, and never later.

What lives here: that. What must never live here: what is refused, or said. Called by: `outlook`,
`decide`; the leader's refusals. Total. Deterministic.
"""

from __future__ import annotations

from coordinator.core.state import State
from coordinator.core.texts import KNOWN_ID_BYTES


def ids(state: State, names: int = 0) -> int:
    """Return how many ids the known ones count as: a long one as several.

    Args:
        state: the applied one.
        names: what names that are about to come take beyond what is allowed for them, in bytes.
    """
    return len(state.dedupe) + -(-(state.id_texts + names) // KNOWN_ID_BYTES)


def has_ids(state: State, count: int, names: int = 0) -> bool:
    """Return whether so many ids more may be known; `names` as of `ids`."""
    return ids(state, names) + count <= state.policy.dedupe_entries_max


def has_room(state: State, count: int, names: int = 0) -> bool:
    """Return whether ids and outcomes leave room for so many requests more; `names` as of `ids`."""
    policy = state.policy
    reserved = (state.all_use.requests + count) * policy.outcome_reserve_bytes
    return has_ids(state, count, names) and reserved <= outcome_bytes_left(state)


def outcome_bytes_left(state: State) -> int:
    """Return how many more bytes of outcomes may be kept; below 0 where there are too many."""
    return state.policy.outcome_bytes_max - state.outcome_bytes - state.outcome_texts
