"""Waiting: for an index to be applied here, and for requests to have their outcomes.

Any replica answers both, since it applies everything. Who waits is looked up by
what is waited for; an entry costs nothing while nobody waits. Nothing here is
kept beyond a bound, and a wait that is over leaves nothing behind.

What lives here: who waits. What must never live here: what is said to a caller
(`api`, `feed`). Called by: those two, on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.answers import outcome_or_error
from coordinator.core.effects import Applied, Ended
from coordinator.core.state import State
from coordinator.core.values import Outcome, Request
from coordinator.proposer import copy_of
from coordinator.shares import Caller, Shares
from raftbatch.errors import RaftbatchError

RETRY_AFTER_MS = 100
"""How soon a caller may come again who met a bound on waits: they come and go."""

Told = Callable[[Outcome | RaftbatchError], None]
"""Told an outcome that is whole; or that it is forgotten, or why this node waits no more."""


class IndexWaits:
    """Those who wait until an index is applied here.

    Args:
        waits_max: how many may.
    """

    def __init__(self, waits_max: int) -> None:
        what, setting = "calls wait for an index", "api.index_waits_max"
        self._shares = Shares(waits_max, what, setting, RETRY_AFTER_MS)
        self._waiting: dict[int, tuple[int, asyncio.Future[bool | RaftbatchError]]] = {}
        self._serial = 0
        self._least = 0  # no wait is for less

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, index: int, timeout_ms: int) -> bool:
        """Return whether the index was applied in that time; it is not, at the call.

        Raises:
            Overloaded: definite; too many wait, of all or of this caller.
            RaftbatchError: what `end` was given.
        """
        self._shares.check(1)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool | RaftbatchError] = loop.create_future()
        timer = loop.call_later(timeout_ms / 1000, _run_out, future)
        serial = self._serial = self._serial + 1
        self._least = min(self._least, index) if self._waiting else index
        self._waiting[serial] = (index, future)
        caller = self._shares.take()
        try:
            found = await future
        finally:
            timer.cancel()
            self._waiting.pop(serial, None)
            self._shares.give(caller)
        if isinstance(found, RaftbatchError):
            raise found
        return found

    def reached(self, index: int) -> None:
        """Tell those who wait for it, or for less."""
        if not self._waiting or index < self._least:
            return
        for serial, (wanted, future) in list(self._waiting.items()):
            if wanted <= index:
                del self._waiting[serial]
                if not future.done():
                    future.set_result(True)
        self._least = min([wanted for wanted, _ in self._waiting.values()], default=0)

    def end(self, error: RaftbatchError) -> None:
        """Tell all that they wait in vain."""
        waiting, self._waiting = self._waiting, {}
        for _, future in waiting.values():
            if not future.done():
                future.set_result(copy_of(error))


def _run_out(future: asyncio.Future[bool | RaftbatchError]) -> None:
    if not future.done():
        future.set_result(False)


class Wait(NamedTuple):
    """One who waits for an outcome; what `drop` takes."""

    name: str
    serial: int


class OutcomeWaits:
    """Those who wait for requests to end, by their names.

    Args:
        waits_max: how many may.
    """

    def __init__(self, waits_max: int) -> None:
        self._shares = Shares(waits_max, "calls wait for outcomes", "api.waits_max", RETRY_AFTER_MS)
        self._waiting: dict[str, dict[int, tuple[Told, Caller]]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return self._shares.total

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, name: str, told: Told) -> Wait:
        """Wait for a request that has no outcome yet; `told` is called once, unless dropped.

        Args:
            name: tenant, NUL, request id.
            told: called on the loop, while the entry is applied that ended it.

        Raises:
            Overloaded: definite; too many wait, of all or of this caller.
        """
        self._shares.check(1)
        serial = self._serial = self._serial + 1
        of_name = self._waiting.get(name)
        if of_name is None:
            of_name = self._waiting[name] = {}
        of_name[serial] = told, self._shares.take()
        return Wait(name, serial)

    def drop(self, wait: Wait) -> None:
        """Wait no more. Harmless when it was told, or dropped before."""
        of_name = self._waiting.get(wait.name)
        dropped = None if of_name is None else of_name.pop(wait.serial, None)
        if dropped is not None:
            self._shares.give(dropped[1])
            if not of_name:
                del self._waiting[wait.name]

    def applied(self, state: State, applied: Applied) -> None:
        """Tell those whose requests an entry has ended."""
        if not self._waiting:
            return
        for effect in applied.effects:
            if type(effect) is Ended:
                self._tell(state, [request.name for request in effect.requests])

    def installed(self, state: State) -> None:
        """Tell those whose requests have ended in what a snapshot stands for."""
        ended = [
            name
            for name in self._waiting
            if not isinstance(state.request(*name.split("\0", 1)), Request)
        ]
        self._tell(state, ended)

    def end(self, error: RaftbatchError) -> None:
        """Tell all that they wait in vain."""
        waiting, self._waiting = self._waiting, {}
        for of_name in waiting.values():
            for told, caller in of_name.values():
                self._shares.give(caller)
                told(copy_of(error))

    def _tell(self, state: State, names: Iterable[str]) -> None:
        for name in names:
            of_name = self._waiting.pop(name, None)
            if of_name is None:
                continue
            known = state.named(name)
            assert not isinstance(known, Request)
            result = outcome_or_error(known)
            for told, caller in of_name.values():
                self._shares.give(caller)
                told(result)
