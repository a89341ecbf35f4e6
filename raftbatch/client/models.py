"""How to make requests for models: their settings, asked for once in a while.

What lives here: that. What must never live here: inputs (`inputs`). Called by: `aio`.
Tasks: one for each model that is asked for at this moment.
"""

from __future__ import annotations

import asyncio
from functools import partial

from raftbatch.client.asks import pause_s
from raftbatch.client.engine import Engine
from raftbatch.client.inputs import Encoder
from raftbatch.client.link import Link
from raftbatch.errors import (
    Draining,
    NoLeader,
    OutcomeUnknown,
    Overloaded,
    RaftbatchError,
    UnknownModel,
    there_are,
)
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2

_FRESH_S = 60.0  # settings are asked for anew after that
_LOOKS_MAX = 5  # for a model that is not there: a node may be behind

_Name = tuple[str, str]


class Models:
    """See the module's docstring.

    Args:
        patience_s: how long a node is looked for; None: for ever.
    """

    def __init__(self, patience_s: float | None) -> None:
        self._patience_s = patience_s
        self._known: dict[_Name, Encoder] = {}
        self._looking: dict[_Name, asyncio.Task[Encoder]] = {}
        self._timers: dict[_Name, asyncio.TimerHandle] = {}

    def known(self, model: str, version: str) -> Encoder | None:
        """Return how to make requests for a model; None: it is to be looked up."""
        return self._known.get((model, version))

    async def look_up(self, engine: Engine, model: str, version: str) -> Encoder:
        """Return how to make requests for a model; whoever asks meanwhile waits for the same.

        Raises:
            UnknownModel: the leader knows none of that name; definite.
            RaftbatchError: nobody answers, or its declaration cannot be read.
        """
        name = (model, version)
        looking = self._looking.get(name)
        if looking is None:
            looking = asyncio.create_task(self._look_up(engine, name))
            self._looking[name] = looking
            looking.add_done_callback(partial(self._looked, name))
        return await asyncio.shield(looking)

    async def close(self) -> None:
        """Return when nothing is looked up any more: the engine is closed by then."""
        for timer in self._timers.values():
            timer.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)

    def _looked(self, name: _Name, looking: asyncio.Task[Encoder]) -> None:
        del self._looking[name]
        if looking.cancelled() or looking.exception() is not None:
            return  # those who wait are told; where none is left, nobody is
        self._known[name] = looking.result()
        forget = partial(self._known.pop, name, None)
        self._timers[name] = looking.get_loop().call_later(_FRESH_S, forget)

    async def _look_up(self, engine: Engine, name: _Name) -> Encoder:
        model, version = name
        loop = asyncio.get_running_loop()
        since, looks, tries = loop.time(), 0, 0
        while True:
            asked_ms = 0
            link = await engine.link(self._patience_s)
            try:
                reply = await link.models(model)
            except (
                NoLeader,
                Draining,
                Overloaded,
            ) as error:  # it knows nothing yet, stops, is full
                asked_ms = error.retry_after_ms
                if self._patience_s is not None and loop.time() - since >= self._patience_s:
                    raise
            except OutcomeUnknown:
                looks += 1
                if looks == _LOOKS_MAX:
                    raise
            else:
                found = [
                    each
                    for each in reply.models
                    if version in ("", each.version) and not each.deleting
                ]
                if found:
                    return Encoder(max(found, key=_age))
                looks += 1
                if looks == _LOOKS_MAX:
                    of_version = f" of version {version}" if version else ""
                    said = f"there is no model {model}{of_version}"
                    raise UnknownModel(f"{said}: {await _others(link, reply)}")
            tries += 1
            await engine.pause(pause_s(tries, asked_ms))


async def _others(link: Link, reply: pb.ModelsReply) -> str:
    """Return which versions there are of the model, or which other models."""
    if reply.models:
        return there_are([each.version for each in reply.models], "its versions are")
    try:
        reply = await link.models("")
    except RaftbatchError:
        return "which there are, `raftbatch status` shows"
    return there_are(each.name for each in reply.models)


def _age(model: model_pb2.Model) -> tuple[int, str]:
    """Return what is greatest for the newest version, as coordinators judge it."""
    version = model.version
    return (int(version) if version.isdecimal() else -1, version)
