"""A scene with a feed, and a tail that a test reads when it likes."""

from __future__ import annotations

from chaos.worlds.loop import VirtualLoop
from coordinator.feed import Feed, FeedConfig
from coordinator.feed_messages import Changes, Current
from coordinator.tail import Tail
from tests.unit.replica_scene import Scene, chunks_of, content_of, meta_of, poll


def now(loop: VirtualLoop, tail: Tail) -> Current | Changes | None:
    """Return a tail's next message, if there is one now."""

    async def read() -> Current | Changes | None:
        return poll(tail.next())

    return loop.run_until_complete(read())


class Fed(Scene):
    """A scene with a feed, and a tail of its first executor.

    Attributes:
        feed: it.
        incarnation: of the executor.
        tail: its tail, of which `Current` was read.
        first: that message.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        slots: int = 4,
        config: FeedConfig | None = None,
        **settings: object,
    ) -> None:
        super().__init__(slots=slots, **settings)
        self.loop = loop
        self.feed = Feed(self.replica, "n1", config)
        self.replica.listeners.append(self.feed)
        self.incarnation = self.state.executors["gpu-1"].incarnation
        self.tail, self.first = self.open()

    def open(self, *held: tuple[int, int], seen_index: int = 0) -> tuple[Tail, Current]:
        """Open another tail, and read its first message."""
        opened = self.feed.open("gpu-1", self.incarnation, held, seen_index)
        tail = self.loop.run_until_complete(opened)
        first = now(self.loop, tail)
        assert isinstance(first, Current)
        assert first.index == self.state.index
        return tail, first

    def read(self) -> Changes | None:
        """Return the next message, if there is one now."""
        message = now(self.loop, self.tail)
        assert message is None or isinstance(message, Changes)
        return message

    def fence(self, batch: int) -> int:
        """Return the fence of a batch's assignment."""
        return self.state.batches[batch].fence

    def install(self, index: int = 0) -> None:
        """Install the state as a snapshot of a later index."""
        content = content_of(self.state)
        meta = meta_of(index or self.replica.index + 1, content)
        self.loop.run_until_complete(self.replica.install(meta, chunks_of(content)))
