"""Calls from simulated clients and executors to a node's front door, over a bad network.

    calls.open(node, process, door)                      # as a node's process begins
    answer = await calls.ask("gpu-1", node, "join", lambda door: door.join(...))
    stream = calls.tail("gpu-1", node, "tail", lambda door: door.tail(...))
    message = await stream.next()

What the door does runs as the node's process: it waits while that is paused, and
never ends if it dies. The caller sees the answer, the error that was answered, or
`Lost`: a question or an answer was lost, the way was cut, the node died or took
too long. A caller that has given up hangs up: what the door still does is cancelled.

What lives here: questions, answers, streams, and how they are lost. What must never
live here: who asks what (suites), messages between nodes (`chaos.worlds.links`).
Called by: the scheduler suite.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from chaos.worlds.ends import Heal
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.process import NS, Process
from chaos.worlds.streams import Source, Stream
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.ids import NodeId

D = TypeVar("D")
T = TypeVar("T")
M = TypeVar("M")
Span = tuple[float, float]

Act = Callable[[D], Awaitable[T]]
"""What is asked of a door; runs as the node's process."""

Observer = Callable[[str, str, NodeId, str, object], None]
"""Told what happens (`ask`, `answer`, `lost`, `message`), caller, node, question, answer."""

_UNREAD_MAX = 4  # messages of a stream that the reader has not taken: flow control


class Lost(Exception):
    """Nothing was heard of a call.

    Attributes:
        definite: whether it never reached the node: nobody was there to take it.
    """

    def __init__(self, why: str, *, definite: bool = False) -> None:
        super().__init__(why)
        self.definite = definite


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How calls fare, in seconds and chances of 1.

    Args:
        delay_s: on the way, each way.
        loss: of a question, and again of its answer.
        timeout_s: the caller waits so long, if it does not say how long.
        notice_s: how long a caller takes to notice that a node has died.
        cut_s: how long nothing comes of a stream that is cut, or of a node that is silent, until
            it is given up.
    """

    delay_s: Span = (0.0002, 0.002)
    loss: float = 0.0
    timeout_s: Span = (0.5, 2.0)
    notice_s: Span = (0.0, 0.005)
    cut_s: Span = (0.3, 1.5)


@dataclass(eq=False, slots=True)
class _Call:
    """One call or stream under way.

    Attributes:
        life: of the node when it was asked; None: it was down.
        task: what runs at the node.
    """

    caller: str
    node: NodeId
    what: str
    life: Process | None
    answer: asyncio.Future[Any]
    task: asyncio.Task[None] | None = None
    stream: Stream[Any] | None = None


class Calls(Generic[D]):
    """All calls of a run.

    Args:
        loop: of the run.
        rng: draws delays and losses.
        options: may be replaced at any time.

    Attributes:
        options: as above.
        observer: told of everything.
        leaving: told of each answer and message as it leaves a node: who, what was asked, what.
    """

    def __init__(self, loop: VirtualLoop, rng: Random, options: CallOptions | None = None) -> None:
        self.options = options or CallOptions()
        self.observer: Observer | None = None
        self.leaving: Callable[[NodeId, str, object], None] | None = None
        self._loop = loop
        self._rng = rng
        self._doors: dict[NodeId, tuple[Process, D]] = {}
        self._silent: dict[NodeId, None] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._under_way: dict[_Call, None] = {}

    @property
    def under_way(self) -> list[str]:
        """What is being asked, for people."""
        return [f"{call.caller} asks {call.node} for {call.what}" for call in self._under_way]

    def count(self, node: NodeId) -> int:
        """Return how many ask a node for something now."""
        return sum(call.node == node for call in self._under_way)

    # Nodes.

    def open(self, node: NodeId, process: Process, door: D) -> None:
        """Let a node's new process be asked."""
        self._silent.pop(node, None)
        self._doors[node] = process, door

    def close(self, node: NodeId, *, silent: bool = False) -> None:
        """Take in that a node has died; with `silent` it takes callers longer to notice."""
        gone = self._doors.pop(node, None)
        if silent:
            self._silent[node] = None
        if gone is None:
            return
        for call in list(self._under_way):
            if call.node != node or call.life is not gone[0]:
                continue
            why, span_s = (
                (f"{node} is silent", self.options.cut_s)
                if silent
                else (f"{node} died", self.options.notice_s)
            )
            self._after(span_s, self._lose, call, why)

    # Callers.

    async def ask(
        self, caller: str, node: NodeId, what: str, act: Act[D, T], timeout_s: float = 0.0
    ) -> T:
        """Ask a node; `what` names the question.

        Raises:
            RaftbatchError: what the node answers.
            Lost: nothing was heard.
        """
        timeout_s = timeout_s or self._rng.uniform(*self.options.timeout_s)
        call = self._begin(caller, node, what)
        if self._is_lost():
            self._tell("lost", call, None)
        else:
            self._after(self.options.delay_s, self._arrive, call, act)
        timer = self._loop.call_later(timeout_s, self._lose, call, "it took too long")
        try:
            answer: T = await call.answer
            return answer
        finally:
            timer.cancel()
            self._end(call)

    def tail(
        self, caller: str, node: NodeId, what: str, act: Act[D, Source[M]], timeout_s: float
    ) -> Stream[M]:
        """Open a stream; what goes wrong, `next` says.

        Args:
            timeout_s: until the first message, at most.
        """
        call = self._begin(caller, node, what)
        stream = call.stream = Stream[M](self._loop, lambda: self._end(call))
        if not self._is_lost():
            self._after(self.options.delay_s, self._arrive, call, act)
        timer = self._loop.call_later(timeout_s, self._lose, call, "no message came")
        stream.timer = timer
        return stream

    def hang_up(self, caller: str) -> None:
        """Take in that a caller has died."""
        for call in list(self._under_way):
            if call.caller == caller:
                self._end(call)

    # What a nemesis does.

    def reset(self, caller: str) -> None:
        """Break all connections of a caller."""
        for call in list(self._under_way):
            if call.caller == caller:
                self._after(self.options.notice_s, self._lose, call, "the connection was reset")

    def cut(self, pairs: Iterable[tuple[str, str]]) -> Heal:
        """Lose all that goes one way, from the first to the second, until that is ended."""
        ways = list(pairs)
        for way in ways:
            self._cuts[way] = self._cuts.get(way, 0) + 1
        is_over = False

        def uncut() -> None:
            nonlocal is_over
            for way in ways:
                if not is_over and self._cuts.get(way):
                    self._cuts[way] -= 1
            is_over = True

        return uncut

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    # On the way there.

    def _begin(self, caller: str, node: NodeId, what: str) -> _Call:
        door = self._doors.get(node)
        life = None if door is None else door[0]
        call = _Call(caller, node, what, life, self._loop.create_future())
        self._under_way[call] = None
        self._tell("ask", call, None)
        return call

    def _arrive(self, call: _Call, act: Act[D, Any]) -> None:
        if call not in self._under_way:
            return
        door = self._doors.get(call.node)
        if call.node in self._silent or self._cuts.get((call.caller, call.node)):
            self._after(self.options.cut_s, self._lose, call, f"{call.node} is silent")
            return
        if door is None or call.life not in (None, door[0]):
            is_sure = call.life is None
            self._after(self.options.delay_s, self._lose, call, "nobody is there", is_sure)
            return
        call.life = door[0]
        self._loop.deliver_at(self._loop.now_ns, door[0], self._serve, call, door[1], act)

    # At the node, as its process.

    def _serve(self, call: _Call, door: D, act: Act[D, Any]) -> None:
        if call not in self._under_way:
            return
        if call.stream is not None:
            call.task = self._loop.create_task(self._pump(call, call.stream, act, door))
        else:
            call.task = self._loop.create_task(self._finish(call, act, door))

    async def _finish(self, call: _Call, act: Act[D, object], door: D) -> None:
        try:
            self._reply(call, await act(door))
        except (RaftbatchError, Fatal) as error:
            self._reply(call, error)

    async def _pump(self, call: _Call, stream: Stream[M], act: Act[D, Source[M]], door: D) -> None:
        """Send what comes, no faster than the reader takes it."""
        source: Source[M] | None = None
        try:
            source = await act(door)
            while True:
                message = await source.next()
                self._send(call, stream, message)
                while stream.unread >= _UNREAD_MAX:
                    await stream.taken()
        except (RaftbatchError, Fatal) as error:
            self._send(call, stream, error)
        finally:
            if source is not None and call.life is not None and call.life.alive:
                source.close()

    # On the way back.

    def _reply(self, call: _Call, answer: object) -> None:
        if self.leaving is not None:
            self.leaving(call.node, call.what, answer)
        if isinstance(answer, Fatal):
            self._lose_later(call, f"{call.node} fails")
        elif self._is_lost():
            self._tell("lost", call, answer)
        else:
            self._after(self.options.delay_s, self._answer, call, answer)

    def _send(self, call: _Call, stream: Stream[M], message: M | Exception) -> None:
        if self.leaving is not None:
            self.leaving(call.node, call.what, message)
        stream.unread += 1
        arrival_ns = self._loop.now_ns + int(self._rng.uniform(*self.options.delay_s) * NS)
        stream.last_ns = max(stream.last_ns + 1, arrival_ns)
        self._loop.at(stream.last_ns, self._bring, call, stream, message)

    def _answer(self, call: _Call, answer: object) -> None:
        if call not in self._under_way:
            return
        if self._cuts.get((call.node, call.caller)):
            self._after(self.options.cut_s, self._lose, call, "the way back was cut")
            return
        self._tell("answer", call, answer)
        if call.answer.done():
            return
        if isinstance(answer, RaftbatchError):
            call.answer.set_exception(answer)
        else:
            call.answer.set_result(answer)

    def _bring(self, call: _Call, stream: Stream[M], message: M | Exception) -> None:
        """Hand a message of a stream over; one that does not get through breaks it."""
        if call not in self._under_way or stream.is_broken:
            return
        if isinstance(message, Fatal):
            self._lose(call, f"{call.node} fails")
        elif self._cuts.get((call.node, call.caller)) or self._is_lost():
            stream.is_broken = True
            self._after(self.options.cut_s, self._lose, call, "the stream was cut")
        else:
            self._tell("message", call, message)
            stream.put(message)

    def _lose_later(self, call: _Call, why: str) -> None:
        self._after(self.options.notice_s, self._lose, call, why)

    def _lose(self, call: _Call, why: str, definite: bool = False) -> None:
        if call not in self._under_way:
            return
        error = Lost(why, definite=definite)
        if call.stream is not None:
            call.stream.put(error)
        elif not call.answer.done():
            self._tell("lost", call, error)
            call.answer.set_exception(error)

    def _end(self, call: _Call) -> None:
        """The caller has its answer, or waits no more: in a while the node learns of that."""
        if call not in self._under_way:
            return
        del self._under_way[call]
        if call.stream is None and not call.answer.done():
            call.answer.cancel()
        if call.task is not None and not call.task.done():
            self._after(self.options.delay_s, self._cancel, call)

    def _cancel(self, call: _Call) -> None:
        """Let the node drop what nobody waits for."""
        life = call.life
        if call.task is not None and life is not None and life.alive:
            self._loop.deliver_at(self._loop.now_ns, life, call.task.cancel)

    # Inside.

    def _after(self, span_s: Span, function: Callable[..., object], *args: object) -> None:
        self._loop.after(self._rng.uniform(*span_s), function, *args)

    def _is_lost(self) -> bool:
        return bool(self.options.loss) and self._rng.random() < self.options.loss

    def _tell(self, happened: str, call: _Call, about: object) -> None:
        if self.observer is not None:
            self.observer(happened, call.caller, call.node, call.what, about)
