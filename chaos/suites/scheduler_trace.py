"""Calls of a run in a few words, for its trace.

What lives here: the words. What must never live here: a check. Called by:
`chaos.suites.scheduler`, for a seed that is traced. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.answers import Ticket
from coordinator.core.values import Outcome
from coordinator.feed_messages import Changes, Current
from raftbatch.ids import NodeId


def told(happened: str, node: NodeId, what: str, about: object) -> str:
    """Return one line of what happened to a call."""
    if happened == "ask":
        return f"{what}? {node}"
    return f"{what} {'' if happened == 'answer' else happened} {node}: {brief(about)}"


def brief(answer: object) -> str:
    """Return an answer or a message in a few words."""
    match answer:
        case Ticket():
            return f"{answer.request_id}@{answer.index}"
        case Outcome():
            return f"{answer.kind.name} {answer.code} {answer.ended_index}"
        case Current():
            starts = [(each.batch, each.fence) for each in answer.start]
            return f"current {answer.index} start {starts} keep {answer.keep} drop {answer.drop}"
        case Changes():
            starts = [(each.batch, each.fence) for each in answer.start]
            ends = f"stop {answer.stop} finished {answer.finished} shed {answer.shed}"
            return f"changes {answer.index} start {starts} {ends}"
        case Exception():
            return f"{type(answer).__name__} {answer}"
        case str() | bytes():
            return repr(answer[:60])
        case Sequence():
            return ", ".join(map(brief, answer))
        case _:
            return repr(answer)[:80]
