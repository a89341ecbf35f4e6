"""What a forwarder puts into one message to the leader."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from coordinator.config import SessionLimits
from coordinator.rpc.forwarding import Forwarder
from coordinator.rpc.handed_on import Kind
from coordinator.rpc.parts import is_within
from raftbatch.v1 import gateway_pb2 as pb

LISTS, NAMES = 200, 4096


def test_lists_of_many_ids_are_several_messages_that_a_leader_reads() -> None:
    async def main() -> None:
        forwarder = Forwarder(cast("Any", None), cast("Any", None), SessionLimits())
        forwarder._change = asyncio.get_running_loop().create_future()
        for _ in range(LISTS):
            names = pb.SessionNames(request_ids=[""] * NAMES)  # nobody has looked at them yet
            forwarder._queue.append(forwarder._item("t", Kind.CANCEL, names))
        opened = pb.Opened(in_flight_max=16_384, message_bytes_max=40 << 20)
        stream: Any = SimpleNamespace(opened=opened)
        kind: Any = pb.SessionRequest.DESCRIPTOR
        sent = 0
        while (message := forwarder._next_message(stream)) is not None:
            assert is_within(message, kind), "it would end the stream, and be sent again for ever"
            sent += len(pb.SessionRequest.FromString(message).cancels)
        assert sent == LISTS

    asyncio.run(main())
