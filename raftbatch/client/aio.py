"""The SDK for programs on asyncio.

What lives here: what such a program calls. What must never live here: whom to ask
(`engine`). Called by: users, `sync`, the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from raftbatch.client import checks
from raftbatch.client.asks import Answer, Ask
from raftbatch.client.engine import Engine
from raftbatch.client.heads import Heads
from raftbatch.client.host import new_request_id, process_id
from raftbatch.client.inputs import Encoder, encode_parameters
from raftbatch.client.mapping import Slot, one_by_one, run_all
from raftbatch.client.models import Models
from raftbatch.client.nodes import Nodes
from raftbatch.client.options import ClientOptions
from raftbatch.client.progress import Progress
from raftbatch.client.results import Result
from raftbatch.client.tickets import Ticket
from raftbatch.errors import InvalidRequest, NoLeader
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2

__all__ = ["AsyncClient", "Inputs", "Ticket"]

_LEAST_S = 0.001
_GRACE_S = 1.0  # after a request's own timeout, for the cluster to say that it has expired

Inputs = Any
"""Values by name; a value alone, where the model has one input; or a `Payload`."""


class AsyncClient:
    """A client of a cluster.

        async with AsyncClient("127.0.0.1:8001") as client:
            result = await client.infer("echo", {"text": "hello"})
            print(result["text"])

    It makes no connection before it is asked for something. It is used on one event loop,
    by any number of tasks: what they ask for at the same time travels together. Leaving it
    ends it; requests that have no answer by then go on in the cluster.

    Args:
        addresses: of one node or more, `host:port`, in a list or separated by commas. The
            client learns the others from any that is up.
        options: see `ClientOptions`.

    Raises:
        InvalidRequest: an address is none; definite.
    """

    def __init__(
        self, addresses: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        if isinstance(addresses, str):
            addresses = [each.strip() for each in addresses.split(",") if each.strip()]
        self._options = options or ClientOptions()
        self._nodes = Nodes(
            addresses,
            self._options.tls,
            forward=self._options.forward,
            cluster=self._options.cluster,
        )
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = process_id()
        self._models = Models(self._options.patience_s)
        self._heads = Heads()

    async def __aenter__(self) -> Self:
        """Return it. Nothing is connected yet."""
        self._running()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        await self.close()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that it knows by now."""
        return tuple(self._nodes.addresses)

    @property
    def leader(self) -> str:
        """The address of the node that is believed to lead; empty: it is not known."""
        return self._nodes.leader

    async def connect(self) -> None:
        """Find the leader now, rather than with the first request.

        Raises:
            NoLeader: none of the nodes that were named answers; definite.
        """
        await self._running().link(self._options.patience_s)

    async def infer(
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
        """Run a request; return its outputs. To cancel the await cancels the request.

        Args:
            model: its name.
            inputs: see `Inputs`. An input without the batch axis is one row, and the
                outputs come without it too.
            version: of the model; empty: the newest.
            request_id: the same for every try of one request; empty: a new one.
            timeout_s: after so long it is `expired` in the cluster. Empty: the model's
                default, and this client waits for `patience_s`.
            priority: 0 is the most urgent; None: the model's default.
            parameters: for the model, beside the inputs.
            traceparent: W3C trace context.

        Raises:
            RequestFailed: the model could not; definite.
            RequestCancelled: somebody has cancelled it; definite.
            DeadlineExceeded: it has expired; definite.
            OutcomeUnknown: no answer in time; it is cancelled, as far as that can be known.
                Ask again with the same request id to know. Not definite.
            InvalidRequest, PayloadTooLarge, UnknownModel, RequestIdConflict: definite.
            NoLeader, Overloaded, QuotaExceeded, NoSpace, Draining: each try met that until
                the time was over, and nothing was done; definite.
        """
        engine = self._engine or self._running()
        checks.timeout(timeout_s)
        limit_s = self._limit_s(timeout_s)
        encoder = self._models.known(model, version)
        if encoder is None:
            encoder, took_s = await self._looked_up(model, version, timeout_s, limit_s)
            limit_s, timeout_s = _left(limit_s, took_s), _left(timeout_s, took_s)
        common = (version, timeout_s, priority, parameters, traceparent, pb.WANT_OUTCOME)
        ask = self._asked(encoder, engine.future(), request_id, model, inputs, *common)
        found: Result = await engine.wait(ask, limit_s, True)
        return found

    async def submit(
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
        """Have a request taken in; return its ticket once it is durable.

            ticket = await client.submit("echo", {"text": "hello"})
            result = await ticket.result()

        To cancel the await cancels the request, as that of `infer` does.

        Args:
            model, inputs, version, request_id, timeout_s, priority, parameters, traceparent:
                see `infer`.

        Raises:
            OutcomeUnknown: no answer in time; it may have been taken in. Ask again with the
                same request id. Not definite.
            RaftbatchError: as `infer`, but for what becomes of it later.
        """
        engine = self._engine or self._running()
        limit_s = self._options.patience_s
        encoder = self._models.known(model, version)
        if encoder is None:
            encoder, took_s = await self._looked_up(model, version, timeout_s, limit_s)
            limit_s, timeout_s = _left(limit_s, took_s), _left(timeout_s, took_s)
        common = (version, timeout_s, priority, parameters, traceparent, pb.WANT_TICKET)
        ask = self._asked(encoder, engine.future(), request_id, model, inputs, *common)
        index: int = await engine.wait(ask, limit_s, False)
        return Ticket(self, ask.request_id, index, is_single=ask.is_single)

    def ticket(self, request_id: str, index: int = 0) -> Ticket:
        """Return the ticket of a request that was taken in before, by this or another client.

        Args:
            request_id: of the request.
            index: of its ticket, where it is known: then any node can answer.
        """
        checks.request_id(request_id)
        checks.number("index", index, checks.INDEX_MAX)
        return Ticket(self, request_id, index)

    async def cancel(self, request_id: str) -> bool:
        """Cancel a request; return True if it is, False if it had an outcome before, which stays.

        One that nobody knows is remembered: should it come, it is cancelled.

        Raises:
            RaftbatchError: it was refused; definite.
        """
        checks.request_id(request_id)
        return await self._running().cancel(request_id)

    async def acknowledge(self, request_id: str) -> None:
        """Have the cluster told, in the background, that an outcome was read, and may go.

        For clients that do not do so by themselves (`ClientOptions.acknowledges`), as where an
        outcome must be safe elsewhere first.
        """
        checks.request_id(request_id)
        self._running().acknowledge(request_id)

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
    ) -> AsyncGenerator[Any, None]:
        """Run many requests; yield their results in the order of the items.

            async for result in client.map("echo", ["a", "b", "c"]):
                print(result.value)

        Args:
            model, version, timeout_s, priority, parameters: see `infer`.
            items: the inputs of each; taken as there is room, so it may be endless.
            in_flight: requests that are under way at most.
            return_errors: yield errors in the place of results, rather than to raise the
                first and cancel what is under way.
            progress: show a bar, where standard error is a terminal.

        Raises:
            RaftbatchError: see `infer`.
        """
        shared = (version, timeout_s, priority, parameters)
        bunches = self._bunches(1, model, items, in_flight, return_errors, progress, shared)
        return one_by_one(bunches)

    def _bunches(
        self,
        most: int,
        model: str,
        items: Iterable[Inputs],
        in_flight: int,
        return_errors: bool,
        progress: bool,
        shared: tuple[str, float | None, int | None, bytes | Mapping[str, Any]],
    ) -> AsyncGenerator[list[Any], None]:
        """Do as `map`, and yield as many answers as are there, `most` at once."""
        version, timeout_s, priority, parameters = shared
        limit_s = self._limit_s(timeout_s)

        def start(item: Inputs, slot: Slot) -> None:
            try:
                encoder, engine = self._models.known(model, version), self._engine
                if encoder is None or engine is None:
                    call = self.infer(
                        model,
                        item,
                        version=version,
                        timeout_s=timeout_s,
                        priority=priority,
                        parameters=parameters,
                    )
                    _by_task(slot, call)
                    return
                ask = self._asked(encoder, slot, "", model, item, *shared, "", pb.WANT_OUTCOME)
                engine.ask(ask, limit_s, True)
                slot.begun(engine, ask)
            except Exception as error:  # noqa: BLE001 - it is raised, or yielded, in its place
                slot.set_exception(error)

        return run_all(start, items, in_flight, return_errors, Progress(progress, items), most)

    async def models(self) -> list[model_pb2.Model]:
        """Return the model versions and their settings, as the leader knows them.

        Raises:
            RaftbatchError: nobody answers.
        """
        link = await self._running().link(self._options.patience_s)
        return list((await link.models("")).models)

    async def close(self) -> None:
        """End it: what is to be acknowledged is, within `close_timeout_s`. Harmless when repeated.

        Calls that wait for an answer get `outcome_unknown`; their requests go on.
        """
        if self._engine is not None and self._process == process_id():
            await self._engine.close()
            await self._models.close()

    async def _result(self, ticket: Ticket, timeout_s: float | None) -> Result:
        engine = self._engine or self._running()
        checks.timeout(timeout_s, "from 0")
        ask = Ask(engine.future(), ticket.request_id, index=ticket.index)
        limit_s = self._options.patience_s if timeout_s is None else timeout_s
        found: Result = await engine.wait(ask, limit_s, False)
        return found

    def _running(self) -> Engine:
        loop = asyncio.get_running_loop()
        if self._process != process_id():
            raise InvalidRequest("the client was made before a fork: make one in each process")
        if self._engine is None:
            self._engine = Engine(self._nodes, self._options)
            self._loop = loop
        elif self._loop is not loop:
            raise InvalidRequest("the client is used on another event loop: make one for each")
        return self._engine

    def _limit_s(self, timeout_s: float | None) -> float | None:
        return self._options.patience_s if timeout_s is None else timeout_s + _GRACE_S

    async def _looked_up(
        self, model: str, version: str, timeout_s: float | None, limit_s: float | None
    ) -> tuple[Encoder, float]:
        """Return how to make requests for a model, and how many seconds it took to be told."""
        checks.text("model", model)
        checks.text("version", version)
        checks.timeout(timeout_s)
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limit_s):
                found = await self._models.look_up(self._running(), model, version)
                return found, asyncio.get_running_loop().time() - began
        except TimeoutError:
            self._nodes.check_met()
            said = f"no node has told of {model} within {limit_s} s{self._nodes.why}"
            raise NoLeader(said) from None

    def _asked(
        self,
        encoder: Encoder,
        answer: Answer,
        request_id: str,
        model: str,
        inputs: Inputs,
        version: str,
        timeout_s: float | None,
        priority: int | None,
        parameters: bytes | Mapping[str, Any],
        traceparent: str,
        want: int,
    ) -> Ask:
        """Return a request as it is sent, and asked for."""
        checks.timeout(timeout_s)
        payload, rows, signature, is_single = encoder.encode(inputs)
        name = request_id or new_request_id()
        key = (model, version, signature, rows, timeout_s, priority, want)
        more = encode_parameters(parameters) if parameters else b""
        head = self._heads.head(name, len(payload), key, more, traceparent)
        return Ask(answer, name, head, payload, 0, is_single, want == pb.WANT_TICKET)


def _left(limit_s: float | None, took_s: float) -> float | None:
    """Return what is left of a time, never nothing; None: it has no end."""
    return None if limit_s is None else max(limit_s - took_s, _LEAST_S)


def _by_task(slot: Slot, call: Coroutine[Any, Any, Result]) -> None:
    """Let a task find an item's answer."""

    def over(task: asyncio.Task[Result]) -> None:
        slot.task = None
        if slot.done() or task.cancelled():
            return
        error = task.exception()
        if error is not None:
            slot.set_exception(error)
        else:
            slot.set_result(task.result())

    slot.task = asyncio.ensure_future(call)
    slot.task.add_done_callback(over)
