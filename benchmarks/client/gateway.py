"""A node that answers every request at once with a result of a set size: what the SDK talks to.

It runs in a process of its own, so that the client's CPU time is the client's alone. It answers
as nodes do: with outcomes of one run, so many in a message. What must never live here: a
measure. Called by: `benchmarks.bench_client`, as a program; it ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2
from raftbatch.v1.gateway_pb2_grpc import GatewayServicer, add_GatewayServicer_to_server

BATCH = 32
"""Outcomes of one run, and of one message."""

_CONFIG = b'{"inputs":[{"name":"text","datatype":"BYTES","dims":[1]}],"outputs":[]}'
_RUN = pb.Run(
    batch=7, attempt=1, fence=9, executor="gpu-1", incarnation=3, padded=[32, 128], infer_ns=5
)


class Gateway(GatewayServicer):
    """See the module's docstring.

    Args:
        result_bytes: of each result.
    """

    def __init__(self, result_bytes: int) -> None:
        self.address = ""
        self._result = bytes(result_bytes)

    async def Session(  # noqa: N802 - the name of the call, as are those below
        self, requests: AsyncIterator[pb.SessionRequest], context: Any
    ) -> None:
        """Answer."""
        opened = pb.Opened(
            node_id="n1", leader=self.address, in_flight_max=16_384, message_bytes_max=40 << 20
        )
        await context.write(pb.SessionReply(opened=opened))
        async for request in requests:
            numbers = [each.number for each in request.submissions]
            acknowledged = [
                pb.SessionAcknowledged(number=each.number) for each in request.acknowledgements
            ]
            for first in range(0, max(len(numbers), bool(acknowledged)), BATCH):
                outcomes = [
                    pb.Outcome(
                        final=True,
                        result=self._result,
                        index=5,
                        ended_index=9,
                        at_ms=1_700_000_000_000,
                        run=_RUN,
                        number=number,
                    )
                    for number in numbers[first : first + BATCH]
                ]
                await context.write(pb.SessionReply(outcomes=outcomes, acknowledged=acknowledged))
                acknowledged = []

    async def Nodes(  # noqa: N802
        self, _request: pb.NodesRequest, _context: Any
    ) -> pb.NodesReply:
        """Name the one node."""
        nodes = [pb.NodeAddress(node_id="n1", address=self.address)]
        return pb.NodesReply(nodes=nodes, node_id="n1", leader_id="n1")

    async def Models(  # noqa: N802
        self, _request: pb.ModelsRequest, _context: Any
    ) -> pb.ModelsReply:
        """Name the one model."""
        model = model_pb2.Model(name="echo", version="1", max_batch_size=BATCH, config=_CONFIG)
        return pb.ModelsReply(models=[model], index=1)


async def main(result_bytes: int) -> None:
    """Serve until standard input ends; say where, in one line."""
    gateway = Gateway(result_bytes)
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", -1),
            ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ]
    )
    add_GatewayServicer_to_server(gateway, server)
    gateway.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    print(gateway.address, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
