"""Operators who change who belongs to the cluster, while clients go on.

Coordinators are added, by themselves and by hand as learners that are promoted, and removed, the
leader too; disks are lost, and the node on such a disk has to refuse to start before it joins
again; executors come and go. All by the commands that operators have.

What lives here: that, and what they hold against a node at once: that it runs though it was
removed, or serves though it has lost its disk. What must never live here: any other judgement
(`chaos.checkers`). Called by: `chaos.workloads`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from chaos.workloads import clients
from chaos.workloads.scene import Scene, side_by_side
from chaos.worlds.started import ROOT
from raftbatch.errors import CannotStart

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import StatusReply

_BETWEEN_S = 0.5
_LOOK_S = 0.2
_TOLD_S = 3.0  # of one command
_NODES_MIN, _EXECUTORS_MIN = 3, 1
_WIPED, _ADDED = 0.3, 0.5  # of what is drawn
_DONE, _REFUSED = 0, 1


async def membership(scene: Scene) -> None:
    """Let clients submit, coordinators be added, removed and wiped, executors come and go."""
    await side_by_side([clients.submit(scene), _coordinators(scene), _executors(scene)])


async def each_change(scene: Scene) -> None:
    """Let clients submit, and coordinators be changed once in each way, in a fixed order."""
    await side_by_side([clients.steady(scene), _each_change(scene)])


async def _each_change(scene: Scene) -> None:
    """Add, remove, add again, promote, wipe; once the faults are over, remove two more."""
    spare = [each for each in scene.world.node_places if each not in scene.world.nodes]
    founders = scene.world.nodes
    await _add(scene, spare[0], by_hand=False)
    await _remove(scene, spare[0])
    await _add(scene, spare[0], by_hand=False)
    await _add(scene, spare[1], by_hand=True)
    await _seen(scene, lambda: _rank(scene, spare[1]) == "voter")
    await _wipe(scene, founders[-1], ("--bootstrap",))
    scene.enough.set()
    await scene.healed()
    await _remove(scene, founders[1])
    await _remove(scene, spare[1])


async def _executors(scene: Scene) -> None:
    """Start and stop executors; one stays."""
    world, rng = scene.world, Random(scene.rng.getrandbits(32))
    while not await scene.pause_of_operators(rng.uniform(1.0, 4.0)):
        names = world.executors
        spare = [each for each in world.places if each not in (*world.node_places, *names)]
        if spare and (len(names) <= _EXECUTORS_MIN or rng.random() < 0.5):
            name = rng.choice(spare)
            await asyncio.to_thread(_ended, scene, name)  # it may be leaving still
            world.join(name)
            scene.noted("join", name)
            continue
        name = rng.choice(names)
        world.leave(name)
        scene.noted("stop", name)
        await asyncio.to_thread(_ended, scene, name)


def _ended(scene: Scene, name: str) -> None:
    """Let one that has left end in good order; where a fault keeps it, at once."""
    if scene.world.is_alive(name):
        try:
            scene.world.terminate(name)
        except TimeoutError:
            scene.world.kill(name)


async def _coordinators(scene: Scene) -> None:
    """Add, remove and wipe one after the other."""
    world, rng = scene.world, Random(scene.rng.getrandbits(32))
    while not await scene.pause_of_operators(_BETWEEN_S):
        spare = [each for each in world.node_places if each not in world.nodes]
        drawn = rng.random()
        if drawn < _WIPED and await _is_whole(scene):
            await _wipe(scene, rng.choice(world.nodes), _flags(rng))
        elif spare and (len(world.nodes) <= _NODES_MIN or drawn < _ADDED):
            await _add(scene, rng.choice(spare), by_hand=rng.random() < 0.3)
        else:
            await _remove(scene, rng.choice(world.nodes))


async def _add(scene: Scene, node: str, *, by_hand: bool) -> None:
    """Add a node; by hand it is a learner that is promoted once it has caught up."""
    world = scene.world
    peer = world.files.peer(node)
    if by_hand and await _told(scene, "add", node, peer, "--learner") == _REFUSED:
        return
    world.join(node)
    scene.noted("join", node)
    if not by_hand:
        await _seen(scene, lambda: _rank(scene, node) == "voter")
    elif await _seen(scene, lambda: node in world.statuses() and _rank(scene, node) == "learner"):
        await _told(scene, "promote", node)
    scene.counts[f"added_{(await asyncio.to_thread(_rank, scene, node)) or 'unseen'}"] += 1


async def _remove(scene: Scene, node: str) -> None:
    """Remove a member, until it is known that it is none; it has to end by itself."""
    world = scene.world
    world.leave(node)
    is_doubtful, end = False, None
    while (status := await _told(scene, "remove", node)) != _DONE:
        if status == _REFUSED and await asyncio.to_thread(_rank, scene, node) == "none":
            break
        is_doubtful |= status != _REFUSED
        if not is_doubtful:
            world.join(node)  # too few would have been left
            return
        if scene.calm.is_set():
            end = end or time.monotonic() + scene.limits.change_s
            if time.monotonic() > end:
                scene.broken("stuck-change", f"nobody knows whether {node} was removed")
                return
        await asyncio.sleep(_BETWEEN_S)
    scene.counts["removed"] += 1
    gone_s = scene.limits.gone_s
    ending = await asyncio.to_thread(world.wait_end, node, gone_s)
    if not ending:
        await scene.healed()
        ending = await asyncio.to_thread(world.wait_end, node, gone_s)
    if not ending:
        scene.broken("runs-though-removed", f"{node} goes on {gone_s:g} s after all was healed")
        await asyncio.to_thread(world.kill, node)
    while not await _forget(scene, node):  # noqa: ASYNC110 - nothing tells of a disk's heal
        await asyncio.sleep(_BETWEEN_S)


def _flags(rng: Random) -> tuple[str, ...]:
    """Return what a unit file may start a node with."""
    return rng.choice(((), ("--bootstrap",)))


async def _wipe(scene: Scene, node: str, flags: tuple[str, ...]) -> None:
    """Take a node's disk away: it may not start before it joins, as a learner in another life."""
    world = scene.world
    world.leave(node)
    await asyncio.to_thread(world.kill, node)
    if not await _forget(scene, node):
        world.join(node)
        return
    scene.counts["wiped"] += 1
    ending, served = await asyncio.to_thread(world.try_start, node, flags, scene.limits.refuse_s)
    told = ending.partition("\n")[0]
    scene.noted("start without a disk", node, ended=told)
    if served:
        scene.broken("served-without-disk", f"{node} lost its disk, and served: {told or 'on'}")
    scene.counts["refused_start"] += bool(ending)
    world.join(node)
    scene.noted("join", node)
    await _seen(scene, lambda: _rank(scene, node) == "voter")


async def _forget(scene: Scene, node: str) -> bool:
    """Empty the directory of a node that has ended; return whether that could be done."""
    try:
        kept = await asyncio.to_thread(scene.world.forget, node)
    except OSError as error:  # its disk fails at this moment
        scene.noted("forget", node, missed=str(error))
        return False
    scene.noted("forget", node, kept=kept.kept.name)
    return True


async def _told(scene: Scene, *words: str) -> int:
    """Give a command `raftbatch members`; return its exit status."""
    where = [word for each in scene.world.addresses for word in ("--address", each)]
    if scene.world.tls is not None:
        where = ["--config", str(scene.world.files.whole)]
    command = [sys.executable, "-m", "raftbatch", "members", *words, *where]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--timeout", f"{_TOLD_S:g}"),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    status = process.returncode if process.returncode is not None else -1
    scene.noted(" ".join(words[:1]), words[1], status=status, said=said.decode().strip()[:300])
    scene.counts[f"{words[0]}_status_{status}"] += 1
    return status


async def _seen(scene: Scene, is_so: Callable[[], bool]) -> bool:
    """Wait until something is seen, not for ever; return whether it is."""
    end = time.monotonic() + scene.limits.step_s
    while not await asyncio.to_thread(is_so):
        if time.monotonic() > end or scene.calm.is_set():
            return False
        await asyncio.sleep(_LOOK_S)
    return True


def _rank(scene: Scene, node: str) -> str:
    """Return a node's rank as the leader of the latest term has it; `none`; empty: none leads."""
    leader = _leading(scene.world.statuses())
    if leader is None:
        return ""
    return next((each.rank for each in leader.members if each.node_id == node), "none")


def _leading(found: Mapping[str, StatusReply]) -> StatusReply | None:
    leading = [each for each in found.values() if each.role == "leader"]
    return max(leading, key=lambda each: each.term, default=None)


async def _is_whole(scene: Scene) -> bool:
    """Return whether all are there and all nodes vote: one may lose its disk then."""
    try:
        await asyncio.to_thread(scene.world.wait_ready, 0.0)
    except CannotStart:
        return False
    leader = _leading(await asyncio.to_thread(scene.world.statuses))
    return leader is not None and all(each.rank == "voter" for each in leader.members)
