"""What operators do, while clients go on: executors leave, nodes restart, members change.

What lives here: that. What must never live here: a judgement. Called by: `chaos.workloads`.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from chaos.workloads import clients
from chaos.workloads.scene import Scene, side_by_side
from raftbatch.errors import CannotStart

_BETWEEN_S = 1.5
_BACK_S = 60.0
_LOOK_S = 0.2


async def drain(scene: Scene) -> None:
    """Stop executors in good order, one after the other, and start them again."""
    await side_by_side([clients.submit(scene), _in_turn(scene, scene.world.executors)])


async def rolling(scene: Scene) -> None:
    """Stop each node in good order, and start it again, once all are there."""
    await side_by_side([clients.submit(scene), _in_turn(scene, scene.world.nodes)])


async def membership(scene: Scene) -> None:
    """Remove a node, and add it again with an empty disk."""
    change = getattr(scene.world, "replace_node", None)
    if change is None:
        raise CannotStart("this world cannot add nodes: choose another workload")
    await side_by_side([clients.submit(scene), _replaced(scene)])


async def _replaced(scene: Scene) -> None:
    world = scene.world
    replace = world.replace_node  # type: ignore[attr-defined]  # asked for in `membership`
    while not scene.has_ended():
        await scene.pause(_BETWEEN_S)
        if scene.has_ended():
            return
        node = scene.rng.choice(world.nodes)
        scene.history.note("operator", what="replace", name=node)
        await asyncio.to_thread(partial(replace, node))
        scene.counts["replaced"] += 1


async def _in_turn(scene: Scene, names: tuple[str, ...]) -> None:
    world, place = scene.world, 0
    while not scene.has_ended():
        await scene.pause(_BETWEEN_S)
        name = names[place % len(names)]
        place += 1
        if scene.has_ended() or not await _is_whole(scene):
            continue
        scene.history.note("operator", what="terminate", name=name)
        with contextlib.suppress(TimeoutError, CannotStart, ProcessLookupError):
            # A nemesis may have killed it meanwhile, or hold it.
            await asyncio.to_thread(world.terminate, name)
        scene.history.note("operator", what="restart", name=name)
        with contextlib.suppress(CannotStart):
            if not world.is_alive(name):
                await asyncio.to_thread(world.restart, name)
        scene.counts["restarted"] += 1


async def _is_whole(scene: Scene) -> bool:
    """Wait until all processes are there and somebody leads; False: it is over, or takes long."""
    world = scene.world
    for _ in range(int(_BACK_S / _LOOK_S)):
        if scene.has_ended():
            return False
        if all(world.is_alive(each) for each in (*world.nodes, *world.executors)):
            found = await asyncio.to_thread(world.statuses)
            if len(found) == len(world.nodes) and all(
                each.phase == "serving" and each.leader for each in found.values()
            ):
                return True
        await scene.pause(_LOOK_S)
    return False
