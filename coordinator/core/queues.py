"""What waits for a slot, by model version, as the leader sees it.

What lives here: the queues. What must never live here: the choice (`decide`).
Called by: `outlook`, `decide`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from coordinator.core.placement import Able
from coordinator.core.state import ModelId
from coordinator.core.windows import Look, WindowView
from raftbatch.kinds import Key


class ModelView:
    """One model version.

    Attributes:
        model_id: name and version.
        able: executors that may run it.
        touched: windows to be looked at, each once.
        waiting: batches that may be assigned now, as keys.
    """

    __slots__ = ("_batches", "_gathering", "_ripe", "able", "model_id", "touched", "waiting")

    def __init__(self, model_id: ModelId) -> None:
        self.model_id = model_id
        self.able = Able(model_id)
        self.touched: list[WindowView] = []
        self.waiting: dict[int, None] = {}
        self._batches: list[int] = []
        self._ripe: list[tuple[int, Key]] = []
        self._gathering: list[tuple[int, Key]] = []

    def touch(self, view: WindowView) -> None:
        """Let a window be looked at with the next decision."""
        if not view.is_touched:
            view.is_touched = True
            self.touched.append(view)

    def add_batch(self, number: int) -> None:
        """Let a batch wait for a slot."""
        if number not in self.waiting:
            self.waiting[number] = None
            heappush(self._batches, number)

    def remove_batch(self, number: int) -> None:
        """Let a batch wait no more."""
        self.waiting.pop(number, None)

    def next_batch(self) -> int | None:
        """Return the waiting batch of the lowest number, which was sealed first."""
        while self._batches:
            if self._batches[0] in self.waiting:
                return self._batches[0]
            heappop(self._batches)
        return None

    def put_aside(self) -> int:
        """Take the next batch out of the queue for now: `add_batch` brings it back."""
        number = heappop(self._batches)
        del self.waiting[number]
        return number

    def add_ripe(self, view: WindowView, look: Look) -> None:
        """Let a window wait to be sealed, behind those that were opened before it."""
        if not view.is_ripe:
            view.is_ripe = True
            heappush(self._ripe, (view.opened_ms(look), view.key))

    def next_ripe(self) -> Key | None:
        """Return the key of the ripe window that was opened first."""
        return self._ripe[0][1] if self._ripe else None

    def take_ripe(self) -> None:
        """Take that one out."""
        heappop(self._ripe)

    def add_gathering(self, view: WindowView) -> None:
        """Note a window that gathers until its `due_ms`."""
        heappush(self._gathering, (view.due_ms, view.key))

    def next_gathering(self, windows: Mapping[Key, WindowView]) -> WindowView | None:
        """Return the gathering window that is due first; None: none gathers."""
        while self._gathering:
            due_ms, key = self._gathering[0]
            view = windows.get(key)
            if view is not None and view.due_ms == due_ms and view.requests:
                return view
            heappop(self._gathering)
        return None
