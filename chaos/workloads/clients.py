"""What clients do: each workload of theirs is a coroutine over a scene.

What lives here: what is asked for, and how it is followed. What must never live here: a judgement.
Called by: `chaos.workloads`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import cycle

from chaos.models import MISCHIEF
from chaos.workloads.plain import Plain
from chaos.workloads.scene import LOADED, Scene, side_by_side

_STORM = 100
_STORM_EVERY_S = (4.0, 8.0)
_CANCEL_S = (0.0, 0.5)
_STEADY_PER_S, _STEADY_MAX = 20.0, 64
_TIMEOUTS_S = (0.05, 0.2, 0.5, 1.0, 3.0)
_OVERLOAD = 3
_ROWS_PER_S = 80.0  # two executors of the model `slow`
_BAD = 0.1
_LONG_S = (0.5, 2.5)
_DEADLY = ("exit", "segv", "hang", "eat")
_BREAKS = ("item",) * 3 + ("raise",) * 3 + _DEADLY
"""What bad requests ask for. The deadly ones are few: each costs seconds, since a new process
has to load the model, for the batch, its halves and theirs."""


async def submit(scene: Scene) -> None:
    """Submit; again under the same id; under a taken id; read the outcome, perhaps twice."""
    await side_by_side([scene.repeat(partial(_submit_one, scene), scene.width), steady(scene)])


async def steady(scene: Scene) -> None:
    """Submit at a rate of its own, some at most; what is refused is not asked for again.

    Whoever waits for outcomes asks a leader that can commit nothing any more for nothing new, and
    so never hears it lie; and what is asked for until it is there tells nothing of refusals.
    """
    under_way = 0
    client = Plain("p1", scene.world.addresses, scene.world.tls, scene.history, scene.counts)

    async def one() -> None:
        nonlocal under_way
        under_way += 1
        request_id = scene.new_id()
        end = await client.submit("echo", scene.text(request_id), request_id)
        if end.kind == "ok":
            await scene.outcome(request_id, end.value["index"])
        under_way -= 1

    try:
        async with asyncio.TaskGroup() as group:
            while not scene.has_ended():
                await scene.pause(scene.rng.expovariate(_STEADY_PER_S))
                if under_way < _STEADY_MAX:
                    group.create_task(one())
    finally:
        await client.close()


async def _submit_one(scene: Scene) -> None:
    rng = scene.rng
    request_id = scene.new_id()
    text = scene.text(request_id)
    if rng.random() < 0.3:
        await scene.caller().infer("echo", text, request_id)
        return
    calls = [scene.taken_in("echo", text, request_id)]
    if rng.random() < 0.15:
        calls.append(scene.taken_in("echo", text, request_id))
    indexes = await asyncio.gather(*calls)
    if rng.random() < 0.05:
        await scene.caller().submit("echo", scene.text(request_id, "other"), request_id)
    for index in dict.fromkeys(each for each in indexes if each is not None):
        await scene.outcome(request_id, index)
        if rng.random() < 0.1:
            await scene.outcome(request_id, index)
    if rng.random() < 0.1:
        await scene.taken_in("echo", text, request_id)


async def cancel(scene: Scene) -> None:
    """Cancel in each stage, ids that never came, and a hundred at once."""
    await side_by_side(
        [scene.repeat(partial(_cancel_one, scene), scene.width), _cancel_storms(scene)]
    )


async def _cancel_one(scene: Scene) -> None:
    rng = scene.rng
    request_id = scene.new_id()
    model = rng.choice(("echo", "slow"))
    if rng.random() < 0.1:
        await scene.caller().cancel(request_id)
    index = await scene.taken_in(model, scene.text(request_id), request_id)
    if index is None:
        await scene.pause(0.1)
        return
    await scene.pause(rng.uniform(*_CANCEL_S) * rng.random())
    calls = [scene.caller().cancel(request_id) for _ in range(1 + (rng.random() < 0.2))]
    await side_by_side([*calls, scene.outcome(request_id, index)])


async def _cancel_storms(scene: Scene) -> None:
    while not scene.has_ended():
        await scene.pause(scene.rng.uniform(*_STORM_EVERY_S))
        if scene.has_ended():
            return
        ids = [scene.new_id() for _ in range(_STORM)]
        indexes = await asyncio.gather(
            *[scene.taken_in("slow", scene.text(each), each) for each in ids]
        )
        took = [
            (each, index) for each, index in zip(ids, indexes, strict=True) if index is not None
        ]
        await side_by_side([scene.caller().cancel(each) for each, _ in took])
        await side_by_side([scene.outcome(*each) for each in took])


async def deadline(scene: Scene) -> None:
    """Ask for more than can be done, with little time for each."""
    await scene.repeat(partial(_deadline_one, scene), scene.width * 2)


async def _deadline_one(scene: Scene) -> None:
    rng = scene.rng
    request_id, timeout_s = scene.new_id(), rng.choice(_TIMEOUTS_S)
    text = scene.text(request_id, f"wait={rng.choice((0, 0, 0.3))}")
    if rng.random() < 0.5:
        await scene.caller().infer("slow", text, request_id, timeout_s)
        return
    index = await scene.taken_in("slow", text, request_id, timeout_s)
    if index is None:
        await scene.pause(0.1)
    else:
        await scene.outcome(request_id, index)


async def overload(scene: Scene) -> None:
    """Ask for three times what can be done, whatever is answered; what is refused is dropped."""
    between_s = 1 / (_OVERLOAD * _ROWS_PER_S)
    async with asyncio.TaskGroup() as group:
        while not scene.has_ended():
            group.create_task(_overload_one(scene))
            await scene.pause(scene.rng.expovariate(1 / between_s))


async def _overload_one(scene: Scene) -> None:
    request_id = scene.new_id()
    end = await scene.rng.choice(scene.hasty).submit("slow", scene.text(request_id), request_id)
    if end.kind == "ok":
        await scene.outcome(request_id, end.value["index"])
    elif end.value["slug"] in LOADED:
        scene.counts["refused"] += 1


async def poison(scene: Scene) -> None:
    """Most requests are well, and a few break the model in each way, one after the other."""
    ways = cycle(scene.rng.sample(_BREAKS, len(_BREAKS)))
    await scene.repeat(partial(_poison_one, scene, ways), scene.width)


async def _poison_one(scene: Scene, ways: Iterator[str] | None = None) -> None:
    rng = scene.rng
    request_id = scene.new_id()
    what = "ok"
    if rng.random() < _BAD:
        what = next(ways) if ways is not None else rng.choice(_BREAKS)
    assert what in ("ok", "item", *MISCHIEF)
    if what in _DEADLY and scene.calm.is_set():
        what = "item"  # else there is no end to it: what waits is to be answered in time
    index = await scene.taken_in("trouble", scene.text(request_id, what), request_id)
    if index is None:
        await scene.pause(0.1)
        return
    await scene.outcome(request_id, index)
    await scene.pause(rng.uniform(0.0, 0.3))


async def long(scene: Scene) -> None:
    """Requests that run for seconds, so that what happens to executors happens within them."""
    await scene.repeat(partial(_long_one, scene), max(1, scene.width // 2))


async def _long_one(scene: Scene) -> None:
    request_id = scene.new_id()
    text = scene.text(request_id, f"wait={scene.rng.uniform(*_LONG_S):.1f}")
    index = await scene.taken_in("slow", text, request_id)
    if index is not None:
        await scene.outcome(request_id, index)


async def soak(scene: Scene) -> None:
    """Do all of it, drawn."""
    ones = (_submit_one, _submit_one, _submit_one, _cancel_one, _deadline_one, _poison_one)

    async def one() -> None:
        await scene.rng.choice(ones)(scene)
        await scene.pause(scene.rng.uniform(0.0, 0.2))

    await scene.repeat(one, scene.width)
