"""Whatever is applied and whenever a tail is read: its executor agrees with the state."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from coordinator.feed import Feed
from coordinator.feed_messages import Current
from coordinator.raft.segments.layout import Entry
from coordinator.replica import Replica
from coordinator.tail import Tail
from raftbatch.errors import StaleIncarnation
from tests.unit.core.drawing import EXECUTORS, Drawing
from tests.unit.feed_model import ModelExecutor
from tests.unit.replica_scene import chunks_of, content_of, meta_of, poll

STEPS = 600
SNAPSHOT_STEPS = 40


class Following:
    """An executor of a drawn history, and the tail that it reads now and then."""

    def __init__(self, executor: str, replica: Replica, feed: Feed, draw: random.Random) -> None:
        self.executor = executor
        self.counts: Counter[str] = Counter()
        self._replica = replica
        self._feed = feed
        self._draw = draw
        self._breaks = draw.choice((0.02, 0.15))
        self._model = ModelExecutor()
        self._incarnation = 0
        self._tail: Tail | None = None

    async def step(self) -> None:
        """Open a tail, read it, or break off, as drawn."""
        draw = self._draw
        if self._tail is None:
            if draw.random() < 0.5:
                await self._open()
        elif draw.random() < self._breaks:
            self._tail.close()
            self._tail = None
        elif draw.random() < 0.4:
            self.read()

    async def _open(self) -> None:
        live = self._replica.state.executors.get(self.executor)
        if live is None:
            return
        if live.incarnation != self._incarnation:
            self.counts += self._model.counts
            self._model, self._incarnation = ModelExecutor(), live.incarnation
        held = list(self._model.held)
        seen_index = self._model.seen_index
        if held and self._draw.random() < 0.1:
            held.pop()  # it lost a message, or a part of itself
            self._model.held.popitem()
        if self._draw.random() < 0.2:
            held.append((self._draw.randint(1, 50), self._draw.randint(1, self._replica.index)))
            self._model.held.setdefault(held[-1], set())
        self._tail = await self._feed.open(self.executor, self._incarnation, held, seen_index)
        self._model.stopped = {key for key in self._model.stopped if key not in held}
        first = True
        while self.read():
            first = False
        assert not first

    def read(self) -> bool:
        """Read once, if there is a message; return whether there was."""
        assert self._tail is not None
        state = self._replica.state
        try:
            message = poll(self._tail.next())
        except StaleIncarnation:
            live = state.executors.get(self.executor)
            assert live is None or live.incarnation != self._incarnation
            self._tail = None
            self.counts["stale"] += 1
            return False
        if message is not None:
            assert (message.index, message.at_ms) == (state.index, state.now_ms)
            self.counts["Current" if isinstance(message, Current) else "Changes"] += 1
            self._model.take(message)
        elif not self._model.seen_index:
            return False
        # Also where there was nothing to say: it said so, of the state as it is.
        self._model.seen_index = state.index
        live = state.executors[self.executor]
        # Slots that it confirmed are free, for all it cares.
        held = {(each.batch, each.fence) for each in live.held}
        self._model.stopped &= held
        self._model.agrees(state, self.executor)
        return message is not None


def play(seed: int) -> Counter[str]:
    """Draw a history, and let executors follow it on a node that sometimes lags and is mended."""
    drawing = Drawing(seed)
    snapshots: dict[int, bytes] = {}
    for step in range(STEPS):
        drawing.step()
        if step % SNAPSHOT_STEPS == 0:
            snapshots[len(drawing.entries)] = content_of(drawing.state)
    draw = random.Random(seed)
    replica = Replica()
    feed = Feed(replica, "n1")
    replica.listeners.append(feed)
    following = [Following(each, replica, feed, draw) for each in EXECUTORS]
    counts: Counter[str] = Counter()

    async def run() -> None:
        place = 0
        while place < len(drawing.entries):
            if place in snapshots and draw.random() < 0.6:
                later = [each for each in snapshots if place < each <= place + 100]
                if later:
                    place = draw.choice(later)
                    content = snapshots[place]
                    index = drawing.entries[place - 1][0]
                    await replica.install(meta_of(index, content), chunks_of(content))
                    counts["installed"] += 1
                    continue
            index, term, data = drawing.entries[place]
            replica.apply(Entry(index, term, data))
            place += 1
            for each in following:
                await each.step()

    asyncio.run(run())
    assert replica.digest == drawing.state.digest
    for each in following:
        counts += each.counts + each._model.counts
    return counts


def test_executor_that_applies_messages_agrees_with_the_state() -> None:
    counts: Counter[str] = Counter()
    for seed in range(24, 56):  # chosen so that all of these come up
        counts += play(seed)
    for what in (
        "installed",
        "stale",
        "Current",
        "Changes",
        "keep",
        "drop",
        "kept and shed",
        "start",
        "stop",
        "stop of what it never had",
        "stop without a reason",
        "start of what it had before",
        "shed",
        "finished",
        "standing",
    ):
        assert counts[what] > 3, (what, counts)


def test_tail_keeps_no_more_than_its_executor_has_slots() -> None:
    drawing = Drawing(3)
    replica = Replica()
    feed = Feed(replica, "n1")
    replica.listeners.append(feed)
    most = 0

    async def run() -> None:
        nonlocal most
        tails: dict[str, Tail] = {}
        for step in range(1500):
            drawing.step()
            index, term, data = drawing.entries[-1]
            replica.apply(Entry(index, term, data))
            for name, live in replica.state.executors.items():
                tail = tails.get(name)
                if tail is None or tail.incarnation != live.incarnation:
                    tails[name] = await feed.open(name, live.incarnation, [], 0)
                elif step % 50 == 0:  # a slow reader
                    poll(tail.next())
                else:
                    marks = len(tail._ended), len(tail._shed)
                    most = max(most, *marks)
                    assert len(tail._runs) + len(tail._stops) <= live.slots
                    assert max(marks) <= live.slots

    asyncio.run(run())
    assert most > 1
