"""Windows as the leader sees them: what waits, what is ripe, and what a batch would be.

A window gathers until it is full, or old, or a deadline in it presses; then it is
ripe, and a batch is composed of what waits by effective priority, and within that
in log order. What lives here: one window's view. What must never live here: which
window is sealed, and when there is a slot for it (`decide`). Called by:
`outlook`, `decide`. Total. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from coordinator.core.values import Request
from raftbatch.kinds import Key, Release
from raftbatch.settings import Model


class Pending(NamedTuple):
    """A request whose Admit is in flight: what is needed to decide about it.

    Attributes:
        key: its batch key.
        rows: of the batch axis.
        size: bytes.
        priority: 0 is the most urgent.
        at_ms: log time of its entry.
        deadline_ms: log time; 0: none.
    """

    key: Key
    rows: int
    size: int
    priority: int
    at_ms: int
    deadline_ms: int


Look = Callable[[int], Request | Pending | None]
"""Gives what waits under a number; None: it has ended."""


class Composed(NamedTuple):
    """What a batch would be.

    Attributes:
        numbers: in order.
        rows: of them.
        size: bytes of them.
        stopped_by: SIZE or BYTES where more waits than fits; None: all are in it.
    """

    numbers: tuple[int, ...]
    rows: int
    size: int
    stopped_by: Release | None


class WindowView:
    """One window. Numbers that have ended are passed over when they are met.

    Attributes:
        key: the batch key.
        lanes: by priority, numbers, rising.
        requests: how many wait.
        rows: theirs.
        size: bytes of theirs.
        urgent_ms: a deadline that no waiting request has an earlier one than; 0: none.
        is_ripe: whether it stands in its model's queue of ripe windows.
        is_touched: whether it stands in its model's list of those to be looked at.
        due_ms: the log time at which it will be looked at; 0: it will not.
    """

    __slots__ = (
        "due_ms",
        "is_ripe",
        "is_touched",
        "key",
        "lanes",
        "requests",
        "rows",
        "size",
        "urgent_ms",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.lanes: dict[int, deque[int]] = {}
        self.requests = self.rows = self.size = self.urgent_ms = self.due_ms = 0
        self.is_ripe = self.is_touched = False

    def add(self, number: int, request: Request | Pending) -> None:
        """Let a request wait here."""
        lane = self.lanes.get(request.priority)
        if lane is None:
            lane = self.lanes[request.priority] = deque()
        lane.append(number)
        self.requests += 1
        self.rows += request.rows
        self.size += request.size
        deadline_ms = request.deadline_ms
        if deadline_ms and (not self.urgent_ms or deadline_ms < self.urgent_ms):
            self.urgent_ms = deadline_ms

    def left(self, request: Request | Pending) -> None:
        """Count a request no more that has ended here."""
        self.requests -= 1
        self.rows -= request.rows
        self.size -= request.size
        if not self.requests:
            self.lanes.clear()
            self.urgent_ms = 0

    def is_full(self, model: Model) -> bool:
        """Return whether a batch is reached by rows or bytes."""
        wanted = model.preferred_batch_size[0] if model.preferred_batch_size else model.rows_max
        return self.rows >= wanted or self.size >= model.max_batch_bytes

    def opened_ms(self, look: Look) -> int:
        """Return when the oldest request here was admitted."""
        found = 0
        for lane in self.lanes.values():
            head = _head(lane, look)
            if head is not None and (not found or head.at_ms < found):
                found = head.at_ms
        return found

    def due_at_ms(self, model: Model, look: Look, lead_ms: int) -> int:
        """Return when it is ripe for its age, or for a deadline `lead_ms` before that."""
        opened_ms = self.opened_ms(look)
        due_ms = opened_ms + -(-model.max_queue_delay_microseconds // 1000)
        if self.urgent_ms:
            return min(due_ms, max(opened_ms, self.urgent_ms - lead_ms))
        return due_ms

    def take(self, model: Model, at_ms: int, look: Look) -> Composed:
        """Take the next batch out of the window.

        Effective priority rises by one level each `priority_aging_ms`, so what
        waits longest is never passed for ever. A request that does not fit ends
        the batch: those behind it do not overtake.
        """
        numbers: list[int] = []
        rows = size = 0
        rows_max = self._rows_wanted(model)
        size_max, aging_ms = model.max_batch_bytes, model.priority_aging_ms
        stopped_by: Release | None = None
        for lane, request in self._in_order(at_ms, aging_ms, look):
            # The first may exceed a preferred size: it would wait for ever.
            if rows + request.rows > (rows_max if numbers else model.rows_max):
                stopped_by = Release.SIZE
                break
            if size + request.size > size_max:
                stopped_by = Release.BYTES
                break
            numbers.append(lane.popleft())
            rows += request.rows
            size += request.size
        self.requests -= len(numbers)
        self.rows -= rows
        self.size -= size
        self._look_for_urgent(model, look)
        return Composed(tuple(numbers), rows, size, stopped_by)

    def _in_order(
        self, at_ms: int, aging_ms: int, look: Look
    ) -> Iterator[tuple[deque[int], Request | Pending]]:
        """Yield the lane whose front is next, and that request; whoever takes it pops it."""
        if len(self.lanes) == 1:
            (lane,) = self.lanes.values()
            while (head := _head(lane, look)) is not None:
                yield lane, head
            return
        # The front of each lane is the best of it: the oldest, and so the furthest risen.
        fronts = {
            priority: front
            for priority, lane in self.lanes.items()
            if (front := _front(priority, lane, at_ms, aging_ms, look)) is not None
        }
        while fronts:
            priority = min(fronts, key=fronts.__getitem__)
            lane = self.lanes[priority]
            yield lane, fronts[priority][2]
            front = _front(priority, lane, at_ms, aging_ms, look)
            if front is None:
                del fronts[priority]
            else:
                fronts[priority] = front

    def _rows_wanted(self, model: Model) -> int:
        """Return the largest preferred size that is there, else all that fits."""
        fitting = [rows for rows in model.preferred_batch_size if rows <= self.rows]
        return max(fitting) if fitting and self.rows < model.rows_max else model.rows_max

    def _look_for_urgent(self, model: Model, look: Look) -> None:
        """Find the earliest deadline again, unless a full batch waits, which needs none."""
        if not self.requests:
            self.lanes.clear()
            self.urgent_ms = 0
        elif self.urgent_ms and not self.is_full(model):
            found = 0
            for priority, lane in self.lanes.items():
                left = deque([number for number in lane if look(number) is not None])
                self.lanes[priority] = left
                for number in left:
                    request = look(number)
                    if request is not None and request.deadline_ms:
                        found = min(found or request.deadline_ms, request.deadline_ms)
            self.urgent_ms = found


def _head(lane: deque[int], look: Look) -> Request | Pending | None:
    """Return the first in a lane that has not ended, dropping those before it."""
    while lane:
        request = look(lane[0])
        if request is not None:
            return request
        lane.popleft()
    return None


def _front(
    priority: int, lane: deque[int], at_ms: int, aging_ms: int, look: Look
) -> tuple[int, int, Request | Pending] | None:
    """Return effective priority, number, and request of a lane's front; None: it is empty.

    Numbers differ, so that requests are never compared.
    """
    head = _head(lane, look)
    if head is None:
        return None
    if priority and aging_ms:
        priority = max(0, priority - (at_ms - head.at_ms) // aging_ms)
    return priority, lane[0], head
