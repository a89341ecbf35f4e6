"""The executor's shell: carries out what the machine asks, and tells it what came of that.

    loaded -> joined: tail, beat, report, tell -> over (lost) -> joined anew -> ...
                                              \\-> drained, left -> closed

An incarnation that is over never returns: what it ran is killed, and the next one joins
with what is ready then. What lives here: tasks and timers. What must never live here: a
decision that the machine can make, a process, a channel. Called by: the composition root.
Tasks: one for each word behind `joined`, for as long as a life lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial

from executor.children import Children
from executor.config import ExecutorConfig
from executor.core.instances import At
from executor.core.machine import Machine
from executor.core.values import Action, DeviceMemory, Failure, Kill, Outcome, Run, WarmUp, Wish
from executor.crew import Crew
from executor.frames import Batch, Failed, Frame, Ran, Warm, Warmed
from executor.joining import join
from executor.link import STALE, Link, Pauses, Refused, Unreachable
from executor.load import load_of
from executor.reporter import Reporter
from executor.usage import Meter, Usage
from raftbatch.logs import fields
from raftbatch.v1 import dispatch_pb2 as pb
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from raftbatch.world import Clock, Entropy

_LOG = logging.getLogger(__name__)

_BEATS = 5  # in a lease
_LEAVE_S = 2.0
_LIVES_S = 0.1, 10.0  # between two lives of a child, at first and at most
_SLOW_S = 1.0  # a small model is back by then; what waits for another goes where it may run now
_PROBE_S, _PROBE_MAX_S = 1.0, 60.0
_SAY_AGAIN_S = 1.0


class Agent:
    """See the module's docstring.

    Args:
        config: what it is told.
        link: to the coordinators.
        children: where its processes come from.
        clock: measures how long batches wait.
        entropy: for pauses.
        meter: of what it takes of the machine; None: that is not told.

    Attributes:
        machine: what it holds and does.
    """

    def __init__(
        self,
        config: ExecutorConfig,
        link: Link,
        children: Children,
        clock: Clock,
        entropy: Entropy,
        meter: Meter | None = None,
    ) -> None:
        self._config = config
        self._link = link
        self._clock = clock
        self._meter = meter
        self._devices: dict[int, DeviceMemory] = {}
        loads = config.loads
        self.machine = Machine(config.executor, [(each.name, each.version) for each in loads])
        self._crew = Crew(children, loads, self, partial(Pauses, entropy, *_LIVES_S), config.load_s)
        self._timeouts = [each.timeout_s for each in config.models for _ in range(each.instances)]
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._probing = Pauses(entropy, _PROBE_S, _PROBE_MAX_S)
        self._probe_at = 0.0
        self._reporter = Reporter(self.machine, link, self._lost, self._wake)
        self._has_wishes = asyncio.Event()
        self._over: asyncio.Future[str] | None = None
        self._is_stopping = self._is_leaving = False
        self._beginning: asyncio.Task[None] | None = None
        self._lease_s = 1.0

    async def run(self) -> None:
        """Load, join, and work until it is told to drain and has left.

        Raises:
            CannotStart: a model does not load, no coordinator answers, or its id is in use.
        """
        try:
            if not await self._unless_stopped(self._crew.start()):
                return
            replaces, limit_s = 0, self._config.join_s
            while not self._is_stopping:
                joining = self._join(replaces, limit_s)
                if not await self._unless_stopped(joining):
                    break
                replaces, limit_s = self.machine.incarnation, 0.0
                await self._live()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await self._crew.close()

    def drain(self) -> None:
        """Take nothing new, end what runs within a bound, leave, and let `run` return."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._beginning is not None:
            self._beginning.cancel()
        self._do(self.machine.leave())
        asyncio.get_running_loop().call_later(self._config.drain_s, self._end, "late")

    # Its life.

    async def _unless_stopped(self, doing: Coroutine[None, None, None]) -> bool:
        """Do something, unless it is told to stop meanwhile; return whether it was done."""
        task = self._beginning = asyncio.ensure_future(doing)
        try:
            await task
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            return False
        finally:
            self._beginning = None
        return True

    async def _join(self, replaces: int, limit_s: float) -> None:
        config, models = self._config, self.machine.ready
        reply = await join(self._link, config, models, replaces, limit_s)
        self.machine.begin(reply.incarnation, models)
        self._lease_s = max(0.1, reply.lease_ms / 1000)
        _LOG.info(
            "executor.joined",
            extra=fields(
                executor=config.executor,
                incarnation=reply.incarnation,
                slots=config.slots,
                models=[f"{name}/{version}" for name, version in models],
            ),
        )

    async def _live(self) -> None:
        """Do all that an executor does until this incarnation is over."""
        over = self._over = asyncio.get_running_loop().create_future()
        if self._is_stopping:
            self._do(self.machine.leave())
        doing = (self._tail(), self._beat(), self._reporter.run(), self._tell())
        tasks = [asyncio.ensure_future(each) for each in doing]
        for task in tasks:
            task.add_done_callback(self.failed)
        self._wake()
        why = "stopped"
        try:
            why = await over
        finally:
            self._over = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if why == "late":
                await self._farewell()
            _LOG.info("executor.left", extra=fields(executor=self._config.executor, why=why))
            self._do(self.machine.end())

    def _lost(self) -> None:
        # The feed may tell that it has left before the answer does.
        self._end("drained" if self._is_leaving else "lost")

    def _end(self, why: str) -> None:
        """Let this incarnation be over."""
        if self._over is not None and not self._over.done():
            self._over.set_result(why)

    def failed(self, task: asyncio.Task[None]) -> None:
        """Let what no task expects end the executor."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self._over is not None and not self._over.done():
            self._over.set_exception(error)

    async def _farewell(self) -> None:
        """Say which batches were running, as far as somebody hears it."""
        wish = self.machine.farewell()
        _LOG.warning("drain.ended", extra=fields(running=list(wish.running)))
        try:
            await self._link.ask(_Saying(wish), _LEAVE_S, _LEAVE_S)
        except (Refused, Unreachable) as error:
            _LOG.warning("leave.failed", extra=fields(why=str(error)))

    # The feed, and that it lives.

    async def _tail(self) -> None:
        pauses = self._link.pauses()
        while True:
            try:
                async for message in self._link.tail(self.machine.tail):
                    self._do(self.machine.take(message, self._clock.monotonic_ns()))
                    pauses.reset()
                    del message  # else its payloads would be held until there is another
            except Refused as error:
                if error.slug == STALE:
                    self._lost()
                    return
                _LOG.warning("tail.refused", extra=fields(why=str(error)))
            await asyncio.sleep(pauses.next_s())

    async def _beat(self) -> None:
        period_s = self._lease_s / _BEATS

        async def call(stub: DispatchStub, call_s: float) -> None:
            beat, usage = self.machine.heartbeat(), Usage()
            if self._meter is not None:
                usage = self._meter.latest
                self._meter.look(self._crew.pids)
            beat.load.CopyFrom(load_of(self.machine, usage, self._devices))
            await stub.Heartbeat(beat, timeout=call_s)

        while True:
            try:
                # A node that says nothing must not cost the lease.
                await self._link.ask(call, period_s, 2 * period_s)
            except Refused as error:
                if error.slug == STALE:
                    self._lost()
                    return
                _LOG.warning("heartbeat.refused", extra=fields(why=str(error)))
            except Unreachable:
                continue  # it has waited already, and says it all again
            await asyncio.sleep(period_s)

    # Children.

    def up(self, number: int) -> None:
        """Take in that an instance can take a batch."""
        self._disarm(number)
        self._do(self.machine.up(number, self._clock.monotonic_ns()))

    def down(self, number: int, failure: Failure) -> None:
        """Take in that an instance is dead, or did not come up."""
        self._disarm(number)
        self._devices.pop(number, None)
        self._do(self.machine.down(number, failure, self._clock.monotonic_ns()))
        self._expect(number)

    def said(self, number: int, frame: Frame) -> bool:
        """Take in what came of a run; return whether it is one that was given."""
        match frame:
            case Ran(run, outcome):
                found: Outcome | Failure | None = outcome
            case Failed(run, code, message, is_lasting):
                found = Failure(code, message, is_lasting)
            case Warmed(run):
                found = None
            case _:
                return False
        instance = self.machine.instances[number]
        if not instance.does(run, found):
            return instance.at is At.KILLED  # it was quicker; the timer is that of its return
        if isinstance(found, Outcome):
            if found.memory is not None:
                self._devices[number] = found.memory
            if not all(each.code for each in found.answers):
                self._probing.reset()
        elif found is not None:
            _LOG.warning("batch.failed", extra=fields(code=found.code, why=found.message))
        self._disarm(number)
        self._do(self.machine.ended(number, run, found, self._clock.monotonic_ns()))
        return True

    def _do(self, actions: Sequence[Action]) -> None:
        """Carry out what the machine asks, and let others look whether they have to do."""
        for action in actions:
            match action:
                case Run(number, run, given, places):
                    self._crew.send(number, _batch(run, given, places))
                    self._arm(number, run)
                case WarmUp(number, run):
                    self._crew.send(number, Warm(run))
                    self._arm(number, run)
                case Kill(number, why):
                    self._disarm(number)
                    self._crew.kill(number, why)
                    self._expect(number)
        self._wake()

    def _arm(self, number: int, run: int) -> None:
        timeout_s = self._timeouts[number]
        if timeout_s:
            loop = asyncio.get_running_loop()
            self._timers[number] = loop.call_later(timeout_s, self._overdue, number, run)

    def _disarm(self, number: int) -> None:
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _overdue(self, number: int, run: int) -> None:
        del self._timers[number]
        self._do(self.machine.overdue(number, run))

    def _expect(self, number: int) -> None:
        """Give an instance that is dead, or will be, its time to be back."""
        self._timers[number] = asyncio.get_running_loop().call_later(_SLOW_S, self._slow, number)

    def _slow(self, number: int) -> None:
        del self._timers[number]
        self._do(self.machine.slow(number, self._clock.monotonic_ns()))

    def _wake(self) -> None:
        self._reporter.wake()
        self._has_wishes.set()

    # What it says of itself.

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._has_wishes.clear()
            wish = self.machine.wish()
            if wish is None:
                await self._changed(self._probed_s(loop.time()))
                continue
            self._is_leaving = isinstance(wish, pb.LeaveRequest)
            try:
                await self._say(wish)
            except Refused as error:
                if error.slug == STALE:
                    self._lost()
                    return
                _LOG.warning("wish.refused", extra=fields(why=str(error)))
                await asyncio.sleep(_SAY_AGAIN_S)
                continue
            self.machine.said(wish)
            if self._is_leaving:
                self._end("drained")
                return
            if isinstance(wish, pb.Probe):
                self._probe_at = loop.time() + self._probing.next_s()
            if isinstance(wish, pb.DrainRequest):
                await self._changed(_SAY_AGAIN_S)  # the feed says so too

    async def _say(self, wish: Wish) -> None:
        if isinstance(wish, pb.Probe):
            [answer] = await self._link.report([pb.Report(probe=wish)])
            if answer is not None and answer.is_final:
                raise Refused(answer.slug, answer.message)
            return  # where it is not heard, it goes on to be suspended, and probes again
        await self._link.ask(_Saying(wish))

    def _probed_s(self, now_s: float) -> float | None:
        """Begin a probe, if one is due; return how long to wait for the next; None: for ever."""
        if not self.machine.holdings.is_suspended:
            return None
        if now_s < self._probe_at:
            return self._probe_at - now_s
        for action in self.machine.probe():
            self._do([action])
            self._has_wishes.clear()
        return _PROBE_S

    async def _changed(self, limit_s: float | None) -> None:
        try:
            await asyncio.wait_for(self._has_wishes.wait(), limit_s)
        except TimeoutError:
            pass  # it looks again


class _Saying:
    """A call that says something of the executor itself."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish

    def __call__(self, stub: DispatchStub, call_s: float) -> Awaitable[object]:
        match self._wish:
            case pb.ReadyRequest() as request:
                return stub.Ready(request, timeout=call_s)  # type: ignore[no-any-return]
            case pb.DrainRequest() as request:
                return stub.Drain(request, timeout=call_s)  # type: ignore[no-any-return]
            case _:
                return stub.Leave(self._wish, timeout=call_s)  # type: ignore[no-any-return]


def _batch(run: int, given: pb.Assignment, places: Sequence[int]) -> Batch:
    """Return a batch as a child is told of it; an absent column stands for empty values."""
    parameters = given.parameters or [b""] * len(given.numbers)
    return Batch(
        run,
        tuple([given.payloads[place] for place in places]),
        tuple([given.rows[place] for place in places]),
        tuple([parameters[place] for place in places]),
        given.signature,
    )
