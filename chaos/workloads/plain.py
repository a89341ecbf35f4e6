"""A client without the SDK: each call is one try at one node, and fails as that node says.

The SDK asks again, elsewhere, whatever a node says of itself: so what a leader told those who
waited as it was deposed is seen by nobody. This client stays with a node for as long as that takes
what it is given, and then asks the next.

What lives here: that. What must never live here: what is asked for. Called by: workloads. One loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import grpc
import grpc.aio

from chaos.history import Event, History
from raftbatch.channels import name_options
from raftbatch.client import TLS
from raftbatch.tensors import BYTES, Tensor, encode, join_elements
from raftbatch.trailers import said_in
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub

_CALL_S = 10.0


class Plain:
    """See the module's docstring.

    Args:
        name: of its rows.
        addresses: of the nodes.
        tls: what it shows and trusts; None: nothing is encrypted.
        history: of the run.
        counts: told what came of each call.
    """

    def __init__(
        self,
        name: str,
        addresses: Sequence[str],
        tls: TLS | None,
        history: History,
        counts: Counter[str],
    ) -> None:
        self.name = name
        self._history = history
        self._counts = counts
        self._channels = [_channel(each, tls) for each in addresses]
        self._place = 0

    async def submit(self, model: str, text: str, request_id: str) -> Event:
        """Have a request taken in, by a node that may not; return the row that ended it."""
        row = self._history.invoke("submit", self.name, request_id, model=model, text=text)
        payload = encode([Tensor("text", BYTES, (1, 1), join_elements([text.encode()]))])
        submission = pb.Submission(request_id=request_id, model=model, rows=1, payload=payload)
        request, place = pb.SubmitRequest(submissions=[submission]), self._place
        try:
            reply = await GatewayStub(self._channels[place]).Submit(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            # It may have been refused, as a whole; a link that broke says nothing either.
            self._turn(place)
            self._counts["submit_info"] += 1
            return self._history.end(row, "info", slug="outcome_unknown", message=error.details())
        [result] = reply.results
        if result.HasField("ticket"):
            self._counts["submit_ok"] += 1
            return self._history.end(row, "ok", index=result.ticket.index)
        self._turn(place)
        said = said_in(result.error)
        kind: Literal["fail", "info"] = "fail" if said.definite else "info"
        self._counts[f"submit_{kind}"] += 1
        self._counts[said.slug] += 1
        return self._history.end(row, kind, slug=said.slug, message=said.message)

    async def close(self) -> None:
        """End it."""
        for channel in self._channels:
            await channel.close()

    def _turn(self, place: int) -> None:
        """Ask the next node, unless another call has turned to it already."""
        if place == self._place:
            self._place = (place + 1) % len(self._channels)


def _channel(address: str, tls: TLS | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    options = name_options(tls.names.get(address, ""))
    return grpc.aio.secure_channel(address, credentials, options)
