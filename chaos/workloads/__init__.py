"""Workloads over real processes: what clients and operators do while nemeses do theirs.

Each is a value with the coroutine that does it; it returns once all that it began has ended. What
lives here: the table of them. What must never live here: what they do. Called by: `chaos.running`,
the command line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from chaos.workloads import clients, members, operators
from chaos.workloads.scene import Scene


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload.

    Attributes:
        name: of it.
        description: in a line.
        run: does it, until the scene is over and all that was begun has ended.
        spare_nodes, spare_executors: how many more than there are in the beginning it may start.
        is_drawn: whether a swarm's seeds may draw it.
    """

    name: str
    description: str
    run: Callable[[Scene], Awaitable[None]]
    spare_nodes: int = 0
    spare_executors: int = 0
    is_drawn: bool = True


WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            "submit", "submit, again under the same id, read the outcome twice", clients.submit
        ),
        Workload("cancel", "cancel in each stage, before it comes, and in storms", clients.cancel),
        Workload("deadline", "short timeouts, more than executors can do", clients.deadline),
        Workload("overload", "three times what executors can do", clients.overload),
        Workload("poison", "requests that raise, exit, crash, hang and eat memory", clients.poison),
        Workload("long", "requests that run for seconds", clients.long),
        Workload("drain", "executors leave in good order and come back", operators.drain),
        Workload("rolling", "each node in turn is stopped and started", operators.rolling),
        Workload(
            "membership",
            "coordinators are added, removed and wiped, executors come and go",
            members.membership,
            spare_nodes=2,
            spare_executors=1,
        ),
        Workload(
            "each-change",
            "coordinators are added, removed and wiped, once in each way, in a fixed order",
            members.each_change,
            spare_nodes=2,
            is_drawn=False,
        ),
        Workload("soak", "all that clients do, mixed", clients.soak),
    )
}
