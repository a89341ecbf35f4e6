"""What operators do, while clients go on: executors leave, nodes restart.

What lives here: that. What must never live here: a judgement. Called by: `chaos.workloads`.
"""

from __future__ import annotations

import asyncio
import contextlib

from chaos.workloads import clients
from chaos.workloads.scene import Scene, side_by_side
from raftbatch.errors import CannotStart

_BETWEEN_S = 1.5
_NOW_S = 0.0


async def drain(scene: Scene) -> None:
    """Stop executors in good order, one after the other, and start them again."""
    await side_by_side([clients.submit(scene), _in_turn(scene, scene.world.executors)])


async def rolling(scene: Scene) -> None:
    """Stop each node in good order, and start it again, once all are there."""
    await side_by_side([clients.submit(scene), _in_turn(scene, scene.world.nodes)])


async def _in_turn(scene: Scene, names: tuple[str, ...]) -> None:
    """Go through them, each once all are there that were there in the beginning."""
    world, place = scene.world, 0
    while not await scene.pause_of_operators(_BETWEEN_S):
        if not await _is_whole(scene):
            continue
        name = names[place % len(names)]
        place += 1
        scene.history.note("operator", what="terminate", name=name)
        with contextlib.suppress(TimeoutError):  # a nemesis may hold it
            await asyncio.to_thread(world.terminate, name)
        scene.history.note("operator", what="restart", name=name)
        await asyncio.to_thread(world.restart, name)
        scene.counts["restarted"] += 1


async def _is_whole(scene: Scene) -> bool:
    """Return whether all processes are there, and have joined."""
    try:
        await asyncio.to_thread(scene.world.wait_ready, _NOW_S)
    except CannotStart:
        return False
    return True
