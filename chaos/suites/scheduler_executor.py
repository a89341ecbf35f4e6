"""A simulated executor: one incarnation after the other, as a careful one behaves.

It joins through any node, tails its feed from any node, tells the leader in every
heartbeat all that it holds, sends a report until its feed says that it is known,
and stops what it is told to stop before it says that it has. What befalls it is the
fleet's doing, and stands in `Mood`.

What lives here: that, in virtual time. What must never live here: what it holds
(`scheduler_holdings`), when things befall it (`scheduler_fleet`). Called by:
`chaos.suites.scheduler_fleet`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from random import Random

from chaos.checkers.scheduler_runs import RunHistory
from chaos.suites.scheduler_calling import Caller
from chaos.suites.scheduler_holdings import Held, Holdings, Stage
from chaos.suites.scheduler_options import Fleet
from chaos.suites.scheduler_reports import completes, failure, has
from chaos.suites.scheduler_requests import Kind, answer
from chaos.worlds.calls import Act, Lost
from coordinator.api import Api
from coordinator.core.watch import Holding
from coordinator.feed_messages import Changes, Current
from coordinator.tail import Tail
from raftbatch import records as r
from raftbatch.errors import RaftbatchError, StaleFence, StaleIncarnation
from raftbatch.kinds import OutcomeKind

_TAIL_TIMEOUT_S = 1.5
_MIND_S = 0.2  # how often it looks whether there is something to say of itself
_FAST_S = 0.001  # a broken device fails at once
_SLOW = 8

ModelIds = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Mood:
    """What befalls an executor now; it stays through its lives.

    Attributes:
        is_broken: every batch fails at once, and so does the probe.
        refuses: chance that it lets go of what it is given.
        is_slow: whether runs take long.
        hangs: how many of the next runs never end.
        is_draining: whether it is to get nothing new.
        leaves: whether it is to end once it holds nothing.
        models: versions that it has ready.
        lives_on: whether a new process remembers the last incarnation.
    """

    is_broken: bool = False
    refuses: float = 0.0
    is_slow: bool = False
    hangs: int = 0
    is_draining: bool = False
    leaves: bool = False
    models: ModelIds = ()
    lives_on: bool = True


@dataclass(slots=True)
class Site:
    """What an executor stands on.

    Attributes:
        loop: of the run.
        name: the executor's id.
        options: what it is like.
        caller: how it asks.
        rng: its own.
        runs: told what it runs.
        mood: what befalls it.
        dies: kills its process.
        complain: told of answers that nobody should get.
    """

    loop: asyncio.AbstractEventLoop
    name: str
    options: Fleet
    caller: Caller
    rng: Random
    runs: RunHistory
    mood: Mood
    dies: Callable[[str], None]
    complain: Callable[[str], None]


class Incarnation:
    """One incarnation.

    Args:
        site: where it lives.
        incarnation: index of its Join.
        models: versions that it joined with.
    """

    def __init__(self, site: Site, incarnation: int, models: ModelIds) -> None:
        self.incarnation = incarnation
        self.holdings = Holdings(site.options.instances)
        self._site = site
        self._said_models: ModelIds | None = models
        self._timers: dict[Held, asyncio.TimerHandle] = {}
        self._reports: dict[Held, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._over: asyncio.Future[None] = site.loop.create_future()

    async def live(self) -> None:
        """Do all that an executor does until this incarnation is over."""
        for each in (self._tail(), self._beat(), self._mind()):
            self._tasks.append(self._begin(each))
        try:
            await self._over
        finally:
            for timer in self._timers.values():
                timer.cancel()
            for task in (*self._tasks, *self._reports.values()):
                task.cancel()
            self.holdings.held.clear()

    def end(self) -> None:
        """Let this incarnation be over."""
        if not self._over.done():
            self._over.set_result(None)

    # The feed.

    async def _tail(self) -> None:
        site = self._site
        name, incarnation, caller = site.name, self.incarnation, site.caller
        while True:
            held, seen = tuple(self.holdings.held), self.holdings.seen
            act: Act[Api, Tail] = partial(_open, name, incarnation, held, seen)
            stream = caller.calls.tail(name, caller.any_node(), "tail", act, _TAIL_TIMEOUT_S)
            try:
                while True:
                    self._take(await stream.next())
            except StaleIncarnation:
                self.end()
                return
            except (RaftbatchError, Lost) as error:
                await asyncio.sleep(caller.wait_s(error))
            finally:
                stream.close()

    def _take(self, message: Current | Changes) -> None:
        site = self._site
        for held, _ in self.holdings.take(message):
            if held.stage is Stage.STOPPING:
                self._kill(held)
            else:
                self._forget_report(held)
        if site.mood.refuses:
            for given in message.start:
                new = self.holdings.held.get((given.batch, given.fence))
                if new is None or new.stage is not Stage.WAITING:
                    continue
                if site.rng.random() < site.mood.refuses:
                    self.holdings.gone(new)
        self._run_more()

    # Running.

    def _run_more(self) -> None:
        while (held := self.holdings.next()) is not None:
            self._run(held)

    def _run(self, held: Held) -> None:
        site, given = self._site, held.given
        rows = held.rows
        if not rows:
            self._tell(held, completes(held, site.name, self.incarnation, {}, 1, 0))
            return
        held.run = site.runs.started(
            site.name, self.incarnation, given.batch, given.attempt, given.fence, tuple(rows)
        )
        if site.mood.hangs:
            site.mood.hangs -= 1
            return
        run_s = site.rng.uniform(*site.options.run_s) * (_SLOW if site.mood.is_slow else 1)
        if site.mood.is_broken:
            self._after(held, _FAST_S, self._fails, "the device is broken")
        elif has(rows, Kind.KILLS):
            self._after(held, run_s, lambda _: site.dies("poison"))
        elif has(rows, Kind.HANGS):
            return
        elif has(rows, Kind.RAISES):
            self._after(held, run_s, self._fails, "the model raised")
        else:
            self._after(held, run_s, self._succeeds, rows, run_s)

    def _succeeds(self, held: Held, rows: dict[int, bytes], run_s: float) -> None:
        site = self._site
        results = {}
        for number, payload in rows.items():
            result = answer(payload)
            kind = OutcomeKind.FAILED if result is None else OutcomeKind.OK
            results[number] = (kind, result or b"")
        held.results = results
        assert held.run is not None
        site.runs.ended(held.run, results)
        parts = site.rng.randint(1, 3) if site.rng.random() < site.options.parts else 1
        named = {number: rows[number] for number in results}
        report = completes(held, site.name, self.incarnation, named, parts, int(run_s * 1e9))
        self._tell(held, report)

    def _fails(self, held: Held, why: str) -> None:
        self._tell(held, [failure(held, why)])

    def _kill(self, held: Held) -> None:
        """Kill what runs; until it is dead, it is held."""
        timer = self._timers.pop(held, None)
        if timer is not None:
            timer.cancel()
        stop_s = self._site.rng.uniform(*self._site.options.stop_s)
        self._after(held, stop_s, self._is_dead)

    def _is_dead(self, held: Held) -> None:
        self.holdings.gone(held)
        self._run_more()

    # Reports.

    def _tell(self, held: Held, report: list[r.Complete] | list[r.Lapse]) -> None:
        held.stage = Stage.REPORTING
        self._reports[held] = self._begin(self._report(held, report))
        self._run_more()

    async def _report(self, held: Held, report: list[r.Complete] | list[r.Lapse]) -> None:
        """Send each part until it is accepted, and the last one until the feed knows of it."""
        site = self._site
        for record in report:
            while self.holdings.held.get(held.name) is held:
                wait_s = site.options.again_s
                try:
                    await site.caller.ask("report", partial(_report, record))
                    if record is not report[-1]:
                        break
                except StaleFence:
                    return  # it is held on: a node that is behind would have it run again
                except StaleIncarnation:
                    self.end()
                    return
                except (RaftbatchError, Lost) as error:
                    if error.definite and getattr(error, "slug", "") == "invalid_request":
                        site.complain(f"{site.name} reports {record}, and is told {error}")
                    wait_s = site.caller.wait_s(error)
                await asyncio.sleep(wait_s)
        self._reports.pop(held, None)

    def _forget_report(self, held: Held) -> None:
        task = self._reports.pop(held, None)
        if task is not None:
            task.cancel()

    # What it says of itself.

    async def _beat(self) -> None:
        site = self._site
        while True:
            held, seen = self.holdings.listed(), self.holdings.seen
            act = partial(_heartbeat, site.name, self.incarnation, seen, held)
            try:
                await site.caller.ask("heartbeat", act, timeout_s=2 * site.options.beat_s)
            except StaleIncarnation:
                self.end()
                return
            except (RaftbatchError, Lost):
                pass  # the next one says it all again
            await asyncio.sleep(site.options.beat_s * site.rng.uniform(0.5, 1.0))

    async def _mind(self) -> None:
        """Say what has changed: models, whether it drains, whether its device works again."""
        site = self._site
        while not self._over.done():
            try:
                await self._say_changes()
            except StaleIncarnation:
                self.end()
                return
            except (RaftbatchError, Lost):
                pass  # it is tried again
            await asyncio.sleep(_MIND_S * site.rng.uniform(0.5, 1.0))

    async def _say_changes(self) -> None:
        mood, name, incarnation = self._site.mood, self._site.name, self.incarnation
        ask, holdings = self._site.caller.ask, self.holdings
        models = mood.models
        if models != self._said_models:
            self._said_models = None  # not known, until it is answered
            ready = r.Ready(name, incarnation, models)
            await ask("ready", lambda api: api.ready(ready))
            self._said_models = models
        if mood.is_draining != holdings.is_draining:
            drain = r.Drain(name, incarnation, mood.is_draining)
            await ask("drain", lambda api: api.drain(drain))
        elif mood.leaves and holdings.is_draining and not holdings.held:
            leave = r.Leave(name, incarnation, False, ())
            await ask("leave", lambda api: api.leave(leave))
            self.end()
        if holdings.is_suspended:
            probe = r.Probe(name, incarnation, not mood.is_broken)  # it ran its warm-up batch
            await ask("probe", lambda api: api.report(probe))

    # Inside.

    def _after(
        self, held: Held, delay_s: float, function: Callable[..., object], *args: object
    ) -> None:
        """Do something about a held batch in a while, as this process."""
        loop = self._site.loop
        self._timers[held] = loop.call_later(delay_s, self._due, held, function, args)

    def _due(self, held: Held, function: Callable[..., object], args: tuple[object, ...]) -> None:
        del self._timers[held]
        function(held, *args)

    def _begin(self, doing: Coroutine[None, None, None]) -> asyncio.Task[None]:
        return self._site.loop.create_task(doing)


async def _open(
    name: str, incarnation: int, held: tuple[tuple[int, int], ...], seen: int, api: Api
) -> Tail:
    return await api.tail(name, incarnation, held, seen)


async def _report(record: r.Complete | r.Lapse, api: Api) -> None:
    await api.report(record)


async def _heartbeat(
    name: str, incarnation: int, seen: int, held: tuple[Holding, ...], api: Api
) -> None:
    api.heartbeat(name, incarnation, seen, held)
