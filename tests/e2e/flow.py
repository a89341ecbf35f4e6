"""Clients that go on asking whatever happens, and what the log says of them in the end.

What lives here: a steady flow of requests through the SDK, each held against its own result,
and the count of outcomes from a node's files. What must never live here: what happens to
the cluster. Called by: end-to-end tests, on their loop.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.offline import read_directory
from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.realworld import RealWorld
from raftbatch.stories import Stories
from raftbatch.stories.values import Counts
from tests.e2e.cluster import ServedCluster

PATIENCE_S = 240.0
"""Longer than any test waits: a request that gets no answer is its test's failure."""


class Flow:
    """So many requests under way at all times; leaving it waits until all are answered.

    Of three requests one is submitted first, and its result asked for with its ticket.

    Args:
        addresses: of the nodes' client ports.
        model: that gives back its text.
        width: how many.
        name: begins their request ids: no two flows have the same.
        options: of the client: a request that takes longer than its patience fails its test.

    Attributes:
        begun: how many were asked for.
        slowest_s: how long the slowest answer took, in seconds.
        executors: how many each has run.
    """

    def __init__(
        self,
        addresses: list[str],
        model: str = "echo",
        width: int = 4,
        name: str = "flow",
        options: ClientOptions | None = None,
    ) -> None:
        self.begun = 0
        self.slowest_s = 0.0
        self.executors: Counter[str] = Counter()
        self._client = AsyncClient(addresses, options or ClientOptions(patience_s=PATIENCE_S))
        self._model = model
        self._width = width
        self._name = name
        self._answered = asyncio.Condition()
        self._newest = -1  # of those that are answered
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin."""
        self._tasks = [asyncio.create_task(self._ask()) for _ in range(self._width)]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self._is_over = True
        if error is not None:
            for task in self._tasks:
                task.cancel()
        try:
            await asyncio.gather(*self._tasks)
        except asyncio.CancelledError:
            if error is None:
                raise
        finally:
            await self._client.close()

    async def goes_on(self, *, with_executor: str = "") -> None:
        """Return once a request is answered that is asked for from now on.

        Args:
            with_executor: by whom; empty: by anybody.
        """
        since, ran = self.begun, self.executors[with_executor]
        async with self._answered:
            await self._answered.wait_for(
                lambda: (
                    self._newest >= since
                    and (not with_executor or self.executors[with_executor] > ran)
                )
            )

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_over:
            number = self.begun
            self.begun += 1
            text, request_id = f"text {number}", f"{self._name}{number}"
            begun_s = loop.time()
            if number % 3:
                result = await self._client.infer(self._model, text, request_id=request_id)
            else:
                ticket = await self._client.submit(self._model, text, request_id=request_id)
                result = await ticket.result()
            assert result.value == text, (number, result.value)
            self.slowest_s = max(self.slowest_s, loop.time() - begun_s)
            async with self._answered:
                self._newest = max(self._newest, number)
                self.executors[result.run.executor] += 1
                self._answered.notify_all()


def counted(directory: Path) -> Counts:
    """Return what a node's files say became of all requests; it has stopped in good order."""
    log = read_directory(RealWorld(), str(directory))
    stories = Stories(log.first_index)
    for index, term, entry in log:
        stories.feed(index, term, entry)
    return stories.counts


def settled(served: ServedCluster, requests: int) -> list[int]:
    """Stop all nodes; hold what each has on its disk against how many requests there were.

    Returns:
        how many of them ran more than once, by each node's log.
    """
    served.agree()
    for process in served.processes.values():
        process.send(signal.SIGTERM)
    assert {process.ended() for process in served.processes.values()} == {0}
    counts = [counted(served.data(node)) for node in served.processes]
    for each in counts:
        assert (each.requests, each.lost, each.unsure, each.doubled) == (requests, 0, 0, 0)
        assert dict(each.outcomes) == {"ok": requests}
    return [each.reruns for each in counts]
