"""Whether a node is ready: for what stands before it, and for whoever waits for it to be.

Live is who answers at all, and whose log has not failed. Ready is who serves: it knows a
leader, has applied what was committed a moment ago, and takes new work. Ready for a model
is a node that is ready, and that knows of an executor which has the model ready.

What lives here: the reasons. What must never live here: how they are told (`rpc.http`).
Called by: `rpc.http`. One thread: the loop's.
"""

from __future__ import annotations

from coordinator.node import Node, Phase
from coordinator.pulse import Pulse
from coordinator.replica import Replica


def why_not_ready(node: Node, pulse: Pulse | None) -> list[str]:
    """Return why a node is not ready, each reason a sentence; none: it is.

    Args:
        node: which.
        pulse: of it; None before its log is opened.
    """
    log = node.log
    if node.phase is Phase.STOPPING:
        return ["this node stops"]
    if log is None or pulse is None:
        waits = [f"this node waits for {other}: {why}" for other, why in node.waiting().items()]
        return waits or ["this node starts"]
    if log.failure is not None:
        return [f"this node has failed: {log.failure}"]
    if node.scheduler is not None and node.scheduler.has_erred:
        return ["this node stops: its state is not what a majority has"]
    if log.leader is None:
        return ["no leader is known: too few nodes can reach each other, or they elect one"]
    if isinstance(node.replica, Replica) and node.replica.state.term != log.term:
        return [f"the leader's first entry, of term {log.term}, is not applied yet"]
    if log.applied < pulse.committed:
        return [f"{log.applied} is applied, but {pulse.committed} was committed seconds ago"]
    return []


def why_no_model(node: Node, name: str, version: str) -> list[str]:
    """Return why a model cannot be run now; none: an executor has it ready, and takes batches.

    Args:
        node: which is asked.
        name: of the model.
        version: of it; empty: the newest, which a request gets that names none.
    """
    if not isinstance(node.replica, Replica) or node.scheduler is None:
        return ["this node knows no models"]
    state = node.replica.state
    chosen = version or node.scheduler.api.newest_version(name)
    model = (name, chosen)
    if model not in state.models or model in state.deleting:
        return [f"there is no model {name}{f', version {version}' if version else ''}"]
    having = [each for each in state.executors.values() if model in each.models]
    if any(each.takes_new for each in having):
        return []
    if having:
        names = ", ".join(sorted(each.executor for each in having)[:5])
        return [f"no executor has {name}/{chosen} ready: {names} drain, or are suspended"]
    return [f"no executor has {name}/{chosen} ready"]
