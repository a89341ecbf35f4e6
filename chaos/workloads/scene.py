"""Clients whose every call is a row of the history, and what workloads share.

What lives here: calls through the SDK, written down before they are made and once they are
answered; ids and texts; the wait for what was begun. What must never live here: what is asked
for (`chaos.workloads`), or what answers must be (`chaos.checkers`). Called by: workloads. One loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from chaos.checkers.process_values import Finding
from chaos.history import Event, History
from chaos.limits import Limits
from chaos.worlds.processes import ProcessWorld
from raftbatch.client import AsyncClient, RequestCancelled, RequestFailed, Result
from raftbatch.errors import DeadlineExceeded, RaftbatchError

LOADED = ("overloaded", "quota_exceeded", "no_space")
"""Refusals that say: later."""


class Caller:
    """One client. Each call returns the row that ended it.

    Args:
        name: of its rows.
        client: that it calls through.
        history: of the run.
        counts: told what came of each call.
    """

    def __init__(
        self, name: str, client: AsyncClient, history: History, counts: Counter[str]
    ) -> None:
        self.name = name
        self._client = client
        self._history = history
        self._counts = counts

    async def submit(
        self, model: str, text: str, request_id: str, timeout_s: float | None = None
    ) -> Event:
        """Have a request taken in: `ok` has its ticket's `index`."""
        row = self._history.invoke(
            "submit", self.name, request_id, model=model, text=text, timeout_s=timeout_s
        )
        try:
            ticket = await self._client.submit(
                model, text, request_id=request_id, timeout_s=timeout_s
            )
        except RaftbatchError as error:
            return self._refused(row, error)
        return self._ended(row, index=ticket.index)

    async def result(self, request_id: str, index: int) -> Event:
        """Wait for an outcome: `ok` has it as `outcome`."""
        row = self._history.invoke("result", self.name, request_id, index=index)
        try:
            result = await self._client.ticket(request_id, index).result()
        except DeadlineExceeded as error:
            return self._ended(row, outcome="expired", message=error.message)
        except RaftbatchError as error:
            return self._failed(row, error)
        return self._gave(row, result)

    async def infer(
        self, model: str, text: str, request_id: str, timeout_s: float | None = None
    ) -> Event:
        """Run a request: `ok` has its outcome, but for one that has expired: see `Caller.result`.

        An expiry may be of the log, or of this client alone: it is `fail`, deadline_exceeded.
        """
        row = self._history.invoke(
            "infer", self.name, request_id, model=model, text=text, timeout_s=timeout_s
        )
        try:
            result = await self._client.infer(
                model, text, request_id=request_id, timeout_s=timeout_s
            )
        except RaftbatchError as error:
            return self._failed(row, error)
        return self._gave(row, result)

    async def cancel(self, request_id: str) -> Event:
        """Cancel a request: `ok` says whether it is `cancelled`, or had an outcome before."""
        row = self._history.invoke("cancel", self.name, request_id)
        try:
            is_cancelled = await self._client.cancel(request_id)
        except RaftbatchError as error:
            return self._refused(row, error)
        return self._ended(row, cancelled=is_cancelled)

    async def close(self) -> None:
        """End it."""
        await self._client.close()

    def _gave(self, row: Event, result: Result) -> Event:
        value = result.value
        return self._ended(
            row,
            outcome="ok",
            index=result.index,
            ended_index=result.ended_index,
            text=str(value[0] if isinstance(value, list) else value),
            executor=result.run.executor,
            batch=result.run.batch,
        )

    def _failed(self, row: Event, error: RaftbatchError) -> Event:
        if isinstance(error, RequestFailed):
            return self._ended(row, outcome="failed", code=error.code, message=error.message)
        if isinstance(error, RequestCancelled):
            return self._ended(row, outcome="cancelled", message=error.message)
        return self._refused(row, error)

    def _ended(self, row: Event, **value: Any) -> Event:
        self._counts[f"{row.op}_ok"] += 1
        if "outcome" in value:
            self._counts[f"outcome_{value['outcome']}"] += 1
        return self._history.end(row, "ok", **value)

    def _refused(self, row: Event, error: RaftbatchError) -> Event:
        self._counts[f"{row.op}_{'fail' if error.definite else 'info'}"] += 1
        self._counts[error.slug] += 1
        kind: Literal["fail", "info"] = "fail" if error.definite else "info"
        return self._history.end(row, kind, slug=error.slug, message=error.message)


@dataclass(slots=True, eq=False)
class Scene:
    """What a workload works with.

    Attributes:
        world: the cluster.
        history: of the run.
        callers: clients that wait long.
        hasty: clients that give up soon.
        rng: all is drawn from it.
        counts: what came of all calls.
        width: how much is under way at one time: workloads take it as their measure.
        over: set when nothing new is to be begun.
        enough: set by a workload to which more of the safety phase is of no use.
        calm: set when operators are to leave the cluster alone: it is to heal.
        whole: set once all faults are undone.
        findings: broken promises that a workload has seen itself.
        limits: how long operators wait for what may never come.
        number: ids that were given out.
    """

    world: ProcessWorld
    history: History
    callers: Sequence[Caller]
    hasty: Sequence[Caller]
    rng: Random
    counts: Counter[str]
    width: int
    over: asyncio.Event
    calm: asyncio.Event
    whole: asyncio.Event = field(default_factory=asyncio.Event)
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    findings: list[Finding] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    number: int = 0

    def has_ended(self) -> bool:
        """Whether nothing new is to be begun."""
        return self.over.is_set()

    def caller(self) -> Caller:
        """Return one of the clients that wait."""
        return self.rng.choice(self.callers)

    def new_id(self) -> str:
        """Return an id that nobody has used."""
        self.number += 1
        return f"r{self.number}"

    def text(self, request_id: str, what: str = "ok") -> str:
        """Return a text for an id, of some length."""
        return f"{request_id}|{what}|{'.' * self.rng.randrange(120)}"

    async def pause(self, pause_s: float) -> None:
        """Wait so long, or until it is over."""
        await _waited(self.over, pause_s)

    async def pause_of_operators(self, pause_s: float) -> bool:
        """Wait so long, or until the cluster is to be left alone; return whether it is."""
        await _waited(self.calm, pause_s)
        return self.calm.is_set()

    async def healed(self) -> None:
        """Wait until all faults are undone."""
        await self.whole.wait()

    def noted(self, what: str, name: str, **value: Any) -> None:
        """Note what an operator did."""
        self.history.note("operator", what=what, name=name, **value)

    def broken(self, rule: str, what: str) -> None:
        """Hold something against the product."""
        self.findings.append(Finding(rule, what))

    async def taken_in(
        self, model: str, text: str, request_id: str, timeout_s: float | None = None
    ) -> int | None:
        """Submit, again and again while nobody knows; return the index; None: it was refused."""
        while True:
            end = await self.caller().submit(model, text, request_id, timeout_s)
            if end.kind == "ok":
                return int(end.value["index"])
            if end.kind == "fail" and end.value["slug"] not in ("no_leader", "draining"):
                return None

    async def outcome(self, request_id: str, index: int) -> str:
        """Wait for an outcome, wherever, and return it; or the slug why there will be none."""
        while True:
            end = await self.caller().result(request_id, index)
            if end.kind == "ok":
                return str(end.value["outcome"])
            if end.kind == "fail" and end.value["slug"] not in ("no_leader", "draining"):
                return str(end.value["slug"])

    async def repeat(self, begin: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
        """Do something over and over, so many at a time, until it is over."""

        async def again() -> None:
            while not self.has_ended():
                await begin()

        await side_by_side([again() for _ in range(count)])


async def _waited(event: asyncio.Event, pause_s: float) -> None:
    # Not `wait_for`, which takes a cancellation that comes with the event for none, before
    # Python 3.12: whoever waits would go on, and what it has begun would never end.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await event.wait()


async def side_by_side(calls: Sequence[Coroutine[Any, Any, Any]]) -> None:
    """Do all of these at one time; the first that breaks ends the others."""
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)
