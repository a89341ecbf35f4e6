"""The client: many sentences in flight, and a probe that is told when something is committed.

What lives here: asking, and remembering what was answered and when. What must never live here:
who is killed (`scenario`), whether it was right (`audit`). Called by: `scenario`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from demo.audit import Answer, Seen
from raftbatch.client import AsyncClient
from raftbatch.errors import RaftbatchError

MODEL = "embedder"
PROBE_MODEL = "echo"
PROBE_PAUSE_S = 0.01
"""Between a probe's ticket and the next probe: enough to leave the processors to the others."""


class Traffic:
    """Sentences under way.

    Args:
        client: that asks.
        texts: of the sentences.
        in_flight: how many at one time.
        now: a clock, in seconds.
        seen: where to write what the client is told.
        advance: called for each that is done.
    """

    def __init__(
        self,
        client: AsyncClient,
        texts: Sequence[str],
        in_flight: int,
        now: Callable[[], float],
        seen: Seen,
        advance: Callable[[], None],
    ) -> None:
        self.vectors: dict[int, Any] = {}
        self._client = client
        self._texts = texts
        self._limit = in_flight
        self._now = now
        self._seen = seen
        self._advance = advance
        self._open: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def done(self) -> int:
        """How many have an answer, or an error."""
        return len(self._seen.answers) + len(self._seen.errors)

    @property
    def in_flight(self) -> frozenset[str]:
        """Ids of those that were asked for and have no answer."""
        return frozenset(self._open)

    async def run(self) -> None:
        """Ask for all, and return when all are done."""
        todo = iter(range(len(self._texts)))
        self._seen.begun_s = self._now()

        async def work() -> None:
            for place in todo:
                await self._one(place)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._limit):
                group.create_task(work())
        self._seen.ended_s = self._now()

    async def reached(self, share: float) -> None:
        """Wait until that share of all is done."""
        while self.done < share * len(self._texts):
            self._changed.clear()
            await self._changed.wait()

    async def _one(self, place: int) -> None:
        name = request_id(place)
        self._open.add(name)
        self._seen.asked.add(name)
        try:
            result = await self._client.infer(MODEL, self._texts[place], request_id=name)
        except RaftbatchError as error:
            self._seen.errors[name] = f"{error.slug}: {error.message}"
        else:
            at_s = self._now()
            self._seen.answers[name] = Answer(at_s, result.ended_index, result.run.executor)
            self.vectors[place] = result.value
        self._open.discard(name)
        self._advance()
        self._changed.set()


class Probe:
    """One small request after another: each ticket says that something was just committed.

    Args:
        client: that asks.
        now: a clock, in seconds.
        seen: where to write the tickets.
    """

    def __init__(self, client: AsyncClient, now: Callable[[], float], seen: Seen) -> None:
        self._client = client
        self._now = now
        self._seen = seen
        self._tickets: list[Any] = []

    async def until_told(self, begun: asyncio.Event) -> None:
        """Ask until a request that was asked for once the leader is killed has its ticket.

        Args:
            begun: set here once the first has its ticket.
        """
        while True:
            asked_s = self._now()
            name = f"probe-{len(self._tickets):04}"
            self._seen.asked.add(name)
            ticket = await self._client.submit(PROBE_MODEL, "still there?", request_id=name)
            self._tickets.append(ticket)
            self._seen.tickets.append((self._now(), ticket.index))
            begun.set()
            if 0 < self._seen.leader_killed_s < asked_s:
                return
            await asyncio.sleep(PROBE_PAUSE_S)

    async def outcomes(self) -> None:
        """Wait until all have their outcome."""
        for ticket in self._tickets:
            await ticket.result()


def request_id(place: int) -> str:
    """Return the id of a sentence's request."""
    return f"sentence-{place:05}"


def place_of(name: str) -> int:
    """Return which sentence a request is of."""
    return int(name.rpartition("-")[2])
