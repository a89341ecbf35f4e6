"""What a deposed leader must never do: have others propose what it has told to be undone.

What lives here: that, for the broken product of this name, whose mutant calls it. What must never
live here: anything that the product or a checker needs. Called by: `chaos.broken`, within a node.
"""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import grpc.aio

from coordinator.proposer import Admission
from raftbatch.errors import RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub

_AGAIN_S = 0.3
_CALL_S = 2.0
_forwarding: list[asyncio.Task[None]] = []


def forward(waiting: Sequence[object]) -> None:
    """Submit requests that waited on this node to whoever takes them, for as long as it takes."""
    submissions = [
        pb.Submission(
            request_id=each.request_id,
            model=each.key[0],
            version=each.key[1],
            signature=each.key[2],
            rows=each.rows,
            payload=each.payload,
            priority=each.priority,
            timeout_ms=each.timeout_ms,
            parameters=each.parameters,
        )
        for each in waiting
        if isinstance(each, Admission)
    ]
    if submissions:
        _forwarding.append(asyncio.get_running_loop().create_task(_forward(submissions)))


def _addresses() -> list[str]:
    config = Path(sys.argv[sys.argv.index("--config") + 1]).read_text("utf-8")
    return [each["client"] for each in tomllib.loads(config)["nodes"].values()]


async def _forward(submissions: Sequence[pb.Submission]) -> None:
    addresses = _addresses()
    left = list(submissions)
    while left:
        for address in addresses:
            async with grpc.aio.insecure_channel(address) as channel:
                try:
                    request = pb.SubmitRequest(submissions=left)
                    reply = await GatewayStub(channel).Submit(request, timeout=_CALL_S)
                except (grpc.aio.AioRpcError, RaftbatchError):
                    continue
            answers = zip(left, reply.results, strict=True)
            left = [each for each, answer in answers if not answer.HasField("ticket")]
        await asyncio.sleep(_AGAIN_S)
