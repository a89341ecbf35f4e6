"""A node's api over a scene; its leader's entries land, and its log is read, when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from chaos.worlds.loop import VirtualLoop
from coordinator.answers import Ticket
from coordinator.api import Answer, Api, ApiConfig
from coordinator.feed import Feed
from coordinator.submission import Submission
from raftbatch.errors import RaftbatchError
from tests.unit.replica_scene import FakeLeader, Scene, chunks_of, content_of, meta_of

T = TypeVar("T")


class FakeLog:
    """A log that is read when the test says so.

    Attributes:
        error: what a barrier raises; None: it waits for `pass_barriers`.
    """

    def __init__(self) -> None:
        self.error: RaftbatchError | None = None
        self._waiting: list[asyncio.Future[int]] = []

    async def barrier(self) -> int:
        """Wait, or raise."""
        if self.error is not None:
            raise self.error
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return await future

    def pass_barriers(self) -> int:
        """Let all return, and return how many there were."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(0)
        return len(waiting)


class Asked(Scene):
    """A scene with an api.

    Attributes:
        loop: all runs there.
        leader, log, feed, api: the node's parts.
    """

    def __init__(
        self, loop: VirtualLoop, config: ApiConfig | None = None, **settings: object
    ) -> None:
        super().__init__(**settings)
        self.loop = loop
        self.leader = FakeLeader(self)
        self.log = FakeLog()
        self.feed = Feed(self.replica, "n1")
        self.api = Api(self.replica, self.leader, self.log, self.feed, "n1", config)
        self.replica.listeners += [self.feed, self.api]

    def asks(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Let a call begin, and come as far as it can at once."""
        task = self.loop.create_task(call)
        self.loop.run_for(0)
        return task

    def gets(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what a call returns once whatever it asks of the leader has landed."""
        task = self.asks(call)
        if not task.done():
            self.leader.land()
        return self.loop.run_until_complete(task)

    def submits(self, *submissions: Submission) -> list[Answer]:
        """Return what becomes of submissions."""
        return self.gets(self.api.submit(submissions))

    def install(self, index: int = 0) -> None:
        """Install the state as a snapshot of a later index."""
        content = content_of(self.state)
        meta = meta_of(index or self.replica.index + 1, content)
        self.loop.run_until_complete(self.replica.install(meta, chunks_of(content)))


def submission(request_id: str = "r1", **fields: Any) -> Submission:
    """Return a submission, plain but for what is said."""
    plain: dict[str, Any] = {
        "tenant": "t",
        "request_id": request_id,
        "model": "m",
        "version": "1",
        "signature": "a",
        "rows": 1,
        "payload": b"payload",
    }
    return Submission(**(plain | fields))


def names(answers: list[Answer]) -> list[object]:
    """Return tickets' indexes, and errors by their slugs."""
    return [each.index if isinstance(each, Ticket) else each.slug for each in answers]
