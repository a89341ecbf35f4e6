"""Placement: filter, then score, without a look at those who cannot be chosen.

An executor is *able* for a model version when it is live, has it ready, is
neither draining nor suspended. Of the able ones with a slot for it the one is best
that has the fewest rows outstanding for its speed; ties go to the lower id. One
version never takes all slots: one is kept for each other that is ready there and has
none, so that a version that is slow, or hangs, holds up no other. What
lives here: executors as the leader sees them, and for each model version the
able ones in the order of their score. What must never live here: which batch is
next (`decide`). Called by: `outlook`, `decide`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from coordinator.core.state import ModelId

SPEED_UNKNOWN = 1000
"""Rows a second of an executor that has not been measured yet."""

_WEIGHT = 8
"""A new measurement moves the measured speed by an eighth."""


class ExecutorView:
    """An executor as the leader sees it: what is applied, and what is in flight.

    Attributes:
        executor: its id.
        incarnation: of its life.
        models: versions it has ready.
        free: slots that neither an assignment nor one in flight takes.
        spare: those of them that are not kept for a version that has none.
        held: how many slots each version has, those in flight too; none that has none.
        is_able: whether it may be assigned anything.
        rows: outstanding, those in flight too.
        speed: rows a second, measured.
    """

    __slots__ = (
        "executor",
        "free",
        "held",
        "incarnation",
        "is_able",
        "models",
        "rows",
        "spare",
        "speed",
    )

    def __init__(self, executor: str, incarnation: int) -> None:
        self.executor = executor
        self.incarnation = incarnation
        self.models: tuple[ModelId, ...] = ()
        self.held: dict[ModelId, int] = {}
        self.free = self.spare = self.rows = 0
        self.is_able = False
        self.speed = SPEED_UNKNOWN

    @property
    def score(self) -> int:
        """Microseconds of work outstanding: less is better."""
        return self.rows * 1_000_000 // self.speed

    def has_slot(self, model_id: ModelId) -> bool:
        """Return whether a batch of a model version may take a slot."""
        return self.free > 0 and (self.spare > 0 or model_id not in self.held)

    def measure(self, rows: int, run_ns: int) -> None:
        """Note how long a batch of so many rows ran."""
        if rows > 0 and run_ns > 0:
            speed = rows * 1_000_000_000 // run_ns
            self.speed = max(1, self.speed + (speed - self.speed) // _WEIGHT)


class Able:
    """The able executors of one model version.

    Args:
        model_id: of it.

    Attributes:
        views: by id, those that are able, with a slot for it or not.
    """

    __slots__ = ("_entered", "_heap", "_model_id", "views")

    def __init__(self, model_id: ModelId) -> None:
        self._model_id = model_id
        self.views: dict[str, ExecutorView] = {}
        self._heap: list[tuple[int, str]] = []
        self._entered: dict[str, int] = {}  # the score under which each stands in the heap

    def put(self, view: ExecutorView) -> None:
        """Note an executor that is able, or that its score or slots are others now."""
        executor = view.executor
        self.views[executor] = view
        if view.has_slot(self._model_id):
            # A score that has become worse is found out when it comes to the top.
            entered = self._entered.get(executor)
            if entered is None or view.score < entered:
                self._enter(view)

    def _enter(self, view: ExecutorView) -> None:
        if len(self._heap) > 4 * len(self.views) + 64:
            self._heap = [(score, executor) for executor, score in self._entered.items()]
            heapify(self._heap)
        self._entered[view.executor] = view.score
        heappush(self._heap, (view.score, view.executor))

    def remove(self, executor: str) -> None:
        """Note that an executor is not able any more."""
        if self.views.pop(executor, None) is not None:
            self._entered.pop(executor, None)

    def best(self, excluded: Sequence[str] = ()) -> ExecutorView | None:
        """Return the best one with a slot; None: there is none.

        One that is excluded is chosen only where no other is able, busy or not.
        """
        passed = []
        found = None
        while self._heap:
            score, executor = self._heap[0]
            view = self.views.get(executor)
            if view is None or self._entered.get(executor) != score:
                heappop(self._heap)  # it stands elsewhere, or nowhere
            elif view.score != score or not view.has_slot(self._model_id):
                heappop(self._heap)
                del self._entered[executor]
                self.put(view)
            elif executor in excluded and not self.has_only(excluded):
                passed.append(heappop(self._heap))
            else:
                found = view
                break
        for each in passed:
            heappush(self._heap, each)
        return found

    def has_only(self, excluded: Sequence[str]) -> bool:
        """Return whether all that are able are among these. Looks at few more than these."""
        return all(executor in excluded for executor in self.views)
