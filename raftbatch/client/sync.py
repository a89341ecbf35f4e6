"""The SDK for programs without an event loop.

What lives here: the calls of `aio`, made on a thread that all clients share. What must never live
here: anything else. Called by: users. Any number of threads may share a client.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from raftbatch.client import aio
from raftbatch.client.aio import AsyncClient, Inputs
from raftbatch.client.host import loop_thread, process_id
from raftbatch.client.options import ClientOptions
from raftbatch.client.results import Result
from raftbatch.closing import Closing
from raftbatch.errors import InvalidRequest
from raftbatch.v1 import model_pb2

T = TypeVar("T")

_BUNCH = 64  # results that `map` fetches from the thread at once, where so many are there already


class Client(Closing):
    """A client of a cluster.

        with Client("127.0.0.1:8001") as client:
            print(client.infer("echo", {"text": "hello"})["text"])

    Args:
        addresses: see `AsyncClient`.
        options: see `ClientOptions`.

    Raises:
        InvalidRequest: an address is none; definite.
    """

    def __init__(
        self, addresses: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self._client = AsyncClient(addresses, options)
        self._thread = loop_thread()
        self._process = process_id()
        self._is_closed = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that it knows by now."""
        return self._client.addresses

    @property
    def leader(self) -> str:
        """The address of the node that is believed to lead; empty: it is not known."""
        return self._client.leader

    def connect(self) -> None:
        """Find the leader now. See `AsyncClient.connect`."""
        self._run(self._client.connect())

    def infer(
        self,
        model: str,
        inputs: Inputs,
        *,
        version: str = "",
        request_id: str = "",
        timeout_s: float | None = None,
        priority: int | None = None,
        parameters: bytes | Mapping[str, Any] = b"",
        traceparent: str = "",
    ) -> Result:
        """Run a request; return its outputs. See `AsyncClient.infer`.

        Whoever interrupts the call (Ctrl-C) cancels the request.
        """
        return self._run(
            self._client.infer(
                model,
                inputs,
                version=version,
                request_id=request_id,
                timeout_s=timeout_s,
                priority=priority,
                parameters=parameters,
                traceparent=traceparent,
            )
        )

    def submit(
        self,
        model: str,
        inputs: Inputs,
        *,
        version: str = "",
        request_id: str = "",
        timeout_s: float | None = None,
        priority: int | None = None,
        parameters: bytes | Mapping[str, Any] = b"",
        traceparent: str = "",
    ) -> Ticket:
        """Have a request taken in; return its ticket. See `AsyncClient.submit`.

        ticket = client.submit("echo", {"text": "hello"})
        result = ticket.result()
        """
        ticket = self._run(
            self._client.submit(
                model,
                inputs,
                version=version,
                request_id=request_id,
                timeout_s=timeout_s,
                priority=priority,
                parameters=parameters,
                traceparent=traceparent,
            )
        )
        return Ticket(self, ticket)

    def ticket(self, request_id: str, index: int = 0) -> Ticket:
        """Return the ticket of a request that was taken in before. See `AsyncClient.ticket`."""
        return Ticket(self, self._client.ticket(request_id, index))

    def cancel(self, request_id: str) -> bool:
        """Cancel a request. See `AsyncClient.cancel`."""
        return self._run(self._client.cancel(request_id))

    def acknowledge(self, request_id: str) -> None:
        """Say that an outcome was read. See `AsyncClient.acknowledge`."""
        self._run(self._client.acknowledge(request_id))

    def map(
        self,
        model: str,
        items: Iterable[Inputs],
        *,
        in_flight: int = 256,
        return_errors: bool = False,
        progress: bool = False,
        version: str = "",
        timeout_s: float | None = None,
        priority: int | None = None,
        parameters: bytes | Mapping[str, Any] = b"",
    ) -> Generator[Any, None, None]:
        """Run many requests; yield their results in the order of the items.

            for result in client.map("echo", ["a", "b", "c"], progress=True):
                print(result.value)

        See `AsyncClient.map`. Items are taken on the client's thread.
        """
        shared = (version, timeout_s, priority, parameters)
        bunches = self._client._bunches(
            _BUNCH, model, items, in_flight, return_errors, progress, shared
        )

        async def bunch() -> list[Any] | None:
            return await anext(bunches, None)

        try:
            while (found := self._run(bunch())) is not None:
                yield from found
        finally:
            if not self._is_closed:
                self._run(bunches.aclose())

    def models(self) -> list[model_pb2.Model]:
        """Return the model versions and their settings. See `AsyncClient.models`."""
        return self._run(self._client.models())

    def close(self) -> None:
        """End it. See `AsyncClient.close`. Harmless when repeated."""
        if self._process == process_id() and not self._thread.is_current:
            self._is_closed = True
            self._thread.run(self._client.close())

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        why = ""
        if self._is_closed:
            why = "the client is closed: make another"
        elif self._process != process_id():
            why = "the client was made before a fork: make one in each process"
        elif self._thread.is_current:
            why = "the client is used on its own thread: take `AsyncClient` there"
        if why:
            call.close()
            raise InvalidRequest(why)
        return self._thread.run(call)


class Ticket:
    """The receipt of a request that is taken in. See `raftbatch.client.aio.Ticket`.

    Args:
        client: that asks for the outcome.
        ticket: what it stands for.
    """

    __slots__ = ("_client", "_ticket")

    def __init__(self, client: Client, ticket: aio.Ticket) -> None:
        self._client = client
        self._ticket = ticket

    def __repr__(self) -> str:
        """Return both names."""
        return repr(self._ticket)

    @property
    def request_id(self) -> str:
        """Of the request."""
        return self._ticket.request_id

    @property
    def index(self) -> int:
        """Of the log entry that admitted it."""
        return self._ticket.index

    def result(self, *, timeout_s: float | None = None) -> Result:
        """Wait for the outcome; return the outputs. See `raftbatch.client.aio.Ticket`."""
        return self._client._run(self._ticket.result(timeout_s=timeout_s))

    def cancel(self) -> bool:
        """Cancel it. See `AsyncClient.cancel`."""
        return self._client.cancel(self.request_id)
