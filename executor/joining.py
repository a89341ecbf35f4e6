"""How an executor begins a life: it joins, and where its id is in use, waits for that to end.

What lives here: that. Called by: the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from executor.config import ExecutorConfig
from executor.core.values import ModelId
from executor.link import Link, Refused, Unreachable
from raftbatch.channels import meant_for
from raftbatch.errors import CannotStart
from raftbatch.logs import fields
from raftbatch.v1 import dispatch_pb2 as pb
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub

_LOG = logging.getLogger(__name__)

_IN_USE = "executor_id_in_use"


async def join(
    link: Link, config: ExecutorConfig, models: Sequence[ModelId], replaces: int, limit_s: float
) -> pb.JoinReply:
    """Begin an incarnation.

    Args:
        link: to the coordinators.
        config: what the executor is told.
        models: that it has ready.
        replaces: the incarnation before; 0: none.
        limit_s: how long to try; 0: for ever.

    Raises:
        CannotStart: nobody let it in, or another executor has its id.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    pauses, is_told = link.pauses(), False
    request = pb.JoinRequest(
        executor=config.executor,
        replaces=replaces,
        slots=config.slots,
        models=[pb.ModelVersion(name=name, version=version) for name, version in models],
    )

    async def call(stub: DispatchStub, call_s: float) -> pb.JoinReply:
        reply: pb.JoinReply = await stub.Join(
            request, timeout=call_s, metadata=meant_for(config.cluster) or None
        )
        return reply

    while True:
        try:
            return await link.ask(call, limit_s or None)
        except Unreachable as error:
            raise CannotStart(
                f"no coordinator lets {config.executor} join within {limit_s:g} s: of "
                f"{link.addresses}, the last asked was {error}. Are they up, and are these "
                "their client addresses? `raftbatch status` tells, and --join waits longer"
            ) from None
        except Refused as error:
            if error.slug != _IN_USE:
                raise CannotStart(f"{config.executor} cannot join: {error.message}") from None
            if limit_s and loop.time() > until:
                raise CannotStart(
                    f"another executor has the id {config.executor}: {error.message}; give each "
                    "an id of its own"
                ) from None
            if not is_told:  # a former life of it, which is not found lost yet, or another
                _LOG.info("join.waited", extra=fields(why=error.message))
            is_told = True
        await asyncio.sleep(pauses.next_s())
