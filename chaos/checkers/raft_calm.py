"""What must be over once all was healed.

What lives here: looks at the lives of a cluster that is left alone. What must never
live here: promises that hold at all times (`raft`). Called by: the raft suite.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.checkers.raft import Life
from raftbatch.ids import NodeId


def reads_too_much(life: Life) -> bool:
    """Return whether more is read from disk than once for each follower, and to apply."""
    reads = len(life.log._driver.journal._reads._reads)
    return reads > max(len(life.log.membership.members), 1)


def quiet(lives: Mapping[NodeId, Life]) -> str | None:
    """Return what is still waiting in some node long after all was healed: nothing must be.

    A leader may have stood down since, over a write that began on a slow disk before.
    """
    followed = {life.log.leader for life in lives.values()}
    if len(followed) != 1 or None in followed:
        return "not all follow one leader yet"
    for life in lives.values():
        log = life.log
        waiting = {
            "messages": len(log._driver.held),
            "proposals": len(log._driver.proposals._waiting),
            "barriers": len(log._driver.barriers),
            "reads": len(log._core.reads._waiting),
            "bytes for the disk": log._driver.journal.pending_bytes,
            "reads from disk": len(log._driver.journal._reads._reads),
        }
        if log._core.replication is not None:
            waiting["nodes to part from"] = len(log._core.replication.followers.leaving)
            for peer, each in log._core.replication.progress.items():
                waiting[f"bytes in flight to {peer}"] = each.in_flight_bytes
        left = [f"{count} {what}" for what, count in waiting.items() if count]
        if left:
            return f"{life.node} still has {', '.join(left)}"
    return None
