"""The leader's decisions: when to seal, what to halve or set aside, where to place.

Pure: log time comes in, records go out, each foreseen in the outlook as it is
made, so that a batch can be sealed and assigned in the entry that admits its
requests. The rules are policy, free to change between releases: `apply` judges
every decision anew. Nothing is looked at but what something has happened to; what
merely waits costs nothing. What lives here: the choice. What must never live here:
what it does (`apply`), live facts of executors (`watch`). Called by: the leader's
shell. Total. Deterministic.

A window is sealed when it is full, old, or pressed by a deadline, and a slot is
free. While none is, it goes on gathering; a full one is sealed all the same, as
long as few batches wait (`_AHEAD`): a batch that waits sealed takes no part in
priorities any more. Slots are as good as taken while the outcomes that are kept, with
those that what runs will leave, reach `outcome_bytes_max`: retention and clients that
have read theirs make room.
"""

from __future__ import annotations

from heapq import heappop, heappush

from coordinator.core.flights import Flight, Sealed
from coordinator.core.outlook import Outlook
from coordinator.core.placement import ExecutorView
from coordinator.core.queues import ModelView
from coordinator.core.retention import next_due_ms
from coordinator.core.room import outcome_bytes_left
from coordinator.core.windows import WindowView
from raftbatch import records as r
from raftbatch.kinds import Release
from raftbatch.settings import Model

DECISIONS_MAX = 1024
"""Records of one call: what is left is decided with the next."""

_LOOKS_MAX = 8192
"""Windows that one call looks at: some ten milliseconds. A new leader has to look at all."""

_AHEAD = 2
"""Batches that may wait sealed for each able executor, and at least."""

_ASIDE_MAX = 8
"""Batches passed over because no executor that is free suits them."""

COMMIT_MS = 5
"""What a commit and the way to the executor take, kept free before a deadline."""


class Decider:
    """Decides over an outlook.

    Args:
        outlook: built.

    Attributes:
        is_draining: whether every window is sealed at once, whatever it holds.
        has_more: whether the last call stopped at one of its bounds: another is due at once,
            also where nothing was decided.
        run_ms: how long batches of a model version run, as the leader measured it.
        row_bytes: of outcome that a row leaves, likewise, of whatever model.
    """

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        self.is_draining = self.has_more = False
        self.run_ms: dict[tuple[str, str], int] = {}
        self.row_bytes = self._looks = 0
        self._is_full = False

    def drain(self) -> None:
        """Seal every window from now on, whatever it holds."""
        self.is_draining = True
        for window in self._outlook.windows.values():
            self._outlook.touch(window)

    def decide(self, flight: Flight, *, is_quiet: bool = False) -> None:
        """Add to an entry what is to be decided by its log time.

        Args:
            flight: the entry; what it has from others already is foreseen.
            is_quiet: whether no Admit waits to be proposed: only then does an idle
                executor end the gathering, for those models that want it.
        """
        outlook = self._outlook
        self.has_more = False
        self._looks = _LOOKS_MAX
        if outlook.is_stale:
            return
        self._wake(flight.at_ms)
        self._separate(flight)
        if is_quiet:
            outlook.dirty.update(outlook.eager)
        if self._is_full and self._has_room():
            self._is_full = False
            outlook.dirty.update(dict.fromkeys(outlook.models))
        for model_id in list(outlook.dirty):
            if len(flight.records) >= DECISIONS_MAX:
                self.has_more = True
                return
            del outlook.dirty[model_id]
            settings = outlook.state.models.get(model_id)
            closed = model_id in outlook.state.deleting or model_id in outlook.flying.frozen
            if settings is not None and not closed:
                self._match(outlook.model(model_id), settings, flight, is_quiet)
        if not flight.records and self._must_advance(flight.at_ms):
            outlook.add(r.Advance(), flight)

    def wake_ms(self) -> int | None:
        """Return the log time at which there is something to decide by itself; None: never."""
        outlook = self._outlook
        found = [heap[0][0] for heap in (outlook.backoff, outlook.due) if heap]
        due_ms = next_due_ms(outlook.state)
        if due_ms is not None:
            tick_ms = outlook.state.policy.tick_ms
            found.append(max(due_ms, outlook.at_ms + tick_ms))
        return min(found, default=None)

    def _has_room(self) -> bool:
        """Return whether more may run, by the outcomes that are kept and that will be."""
        outlook = self._outlook
        left = outcome_bytes_left(outlook.state)
        # One batch may always run: what it leaves may be less than what was measured.
        if left > outlook.rows * self.row_bytes or (left > 0 and not outlook.rows):
            return True
        self._is_full = True
        return False

    def _must_advance(self, at_ms: int) -> bool:
        """Return whether something is due that no entry in flight will end."""
        outlook = self._outlook
        due_ms = next_due_ms(outlook.state)
        if due_ms is None or due_ms > at_ms:
            return False
        is_coming = bool(outlook.flying.flights) and outlook.at_ms >= due_ms
        return not is_coming and at_ms >= outlook.at_ms + outlook.state.policy.tick_ms

    def _wake(self, at_ms: int) -> None:
        """Bring in what has waited for this time."""
        outlook = self._outlook
        while outlook.backoff and outlook.backoff[0][0] <= at_ms:
            outlook.refresh_batch(heappop(outlook.backoff)[1])
        while outlook.due and outlook.due[0][0] <= at_ms:
            due_ms, key = heappop(outlook.due)
            view = outlook.windows.get(key)
            if view is not None and view.due_ms == due_ms:
                outlook.touch(view)

    def _separate(self, flight: Flight) -> None:
        """Halve exhausted batches, and set aside requests that are alone in one."""
        outlook = self._outlook
        for number in list(outlook.spent):
            if len(flight.records) >= DECISIONS_MAX:
                self.has_more = True
                return
            batch = outlook.state.batches[number]
            if len(batch.members) > 1:
                left = outlook.next_batch
                outlook.add(r.Bisect(number, left, left + 1), flight)
            else:
                outlook.add(r.Quarantine(number), flight)

    def _match(self, view: ModelView, settings: Model, flight: Flight, is_quiet: bool) -> None:
        """Bring batches and windows of one model version to executors."""
        self._look_at_touched(view, settings, flight.at_ms)
        aside: list[int] = []
        while len(flight.records) < DECISIONS_MAX:
            best = view.able.best() if self._has_room() else None
            number = view.next_batch()
            if best is not None and number is not None:
                if not self._place(view, number, flight):
                    aside.append(view.put_aside())
                    if len(aside) >= _ASIDE_MAX:
                        break
                continue
            window = self._next_window(view, settings, best, is_quiet)
            if window is None:
                break
            self._seal(view, window, settings, flight)
            if self._outlook.is_stale:
                break
        else:
            self.has_more = True
            self._outlook.dirty[view.model_id] = None
        for number in aside:
            view.add_batch(number)

    def _look_at_touched(self, view: ModelView, settings: Model, at_ms: int) -> None:
        outlook = self._outlook
        touched, view.touched = view.touched[: self._looks], view.touched[self._looks :]
        self._looks -= len(touched)
        if view.touched:
            self.has_more = True
            outlook.dirty[view.model_id] = None
        for window in touched:
            window.is_touched = False
            if not window.requests:
                if outlook.windows.get(window.key) is window and not window.is_ripe:
                    del outlook.windows[window.key]
            elif not window.is_ripe:
                self._gather_on(view, window, settings, at_ms)

    def _gather_on(self, view: ModelView, window: WindowView, settings: Model, at_ms: int) -> None:
        """Let a window be ripe, or say when it will be."""
        outlook = self._outlook
        lead_ms = self.run_ms.get(view.model_id, 0) + COMMIT_MS
        due_ms = window.due_at_ms(settings, outlook.look, lead_ms)
        if due_ms <= at_ms or self.is_draining or window.is_full(settings):
            view.add_ripe(window, outlook.look)
        elif window.due_ms != due_ms:
            window.due_ms = due_ms
            heappush(outlook.due, (due_ms, window.key))
            if settings.seal_when_idle:
                view.add_gathering(window)
                outlook.eager[view.model_id] = None

    def _next_window(
        self,
        view: ModelView,
        settings: Model,
        best: ExecutorView | None,
        is_quiet: bool,
    ) -> WindowView | None:
        """Return the window to be sealed next; None: none is."""
        outlook = self._outlook
        while (key := view.next_ripe()) is not None:
            window = outlook.windows.get(key)
            if window is None or not window.requests:
                view.take_ripe()
                if window is not None:
                    window.is_ripe = False
                    outlook.touch(window)
                continue
            ahead = _AHEAD * max(1, len(view.able.views))
            may_wait = window.is_full(settings) and len(view.waiting) < ahead
            return window if best is not None or may_wait else None
        is_idle = best is not None and not best.rows
        if settings.seal_when_idle and is_quiet and is_idle:
            oldest = view.next_gathering(outlook.windows)
            if oldest is None:
                outlook.eager.pop(view.model_id, None)
            return oldest
        return None

    def _seal(self, view: ModelView, window: WindowView, settings: Model, flight: Flight) -> None:
        """Make a batch of what is at the window's front, and let the rest gather on."""
        outlook = self._outlook
        is_full, was_ripe = window.is_full(settings), window.is_ripe
        delay_ms = -(-settings.max_queue_delay_microseconds // 1000)
        is_old = window.opened_ms(outlook.look) + delay_ms <= flight.at_ms
        composed = window.take(settings, flight.at_ms, outlook.look)
        if was_ripe:
            view.take_ripe()
            window.is_ripe = False
        if composed.stopped_by is not None:
            reason = composed.stopped_by
        elif is_full:
            by_bytes = composed.size >= settings.max_batch_bytes
            reason = Release.BYTES if by_bytes else Release.SIZE
        elif self.is_draining:
            reason = Release.DRAIN
        elif is_old:
            reason = Release.AGE
        else:
            reason = Release.DEADLINE if was_ripe else Release.IDLE
        if not composed.numbers:
            outlook.is_stale = True  # it counts what is not there
            return
        number = outlook.next_batch
        outlook.flying.sealing[number] = Sealed(
            window.key, composed.numbers, composed.rows, composed.size
        )
        outlook.add(r.Seal(number, window.key, reason, composed.numbers), flight)
        window.due_ms = 0
        if window.requests:
            self._gather_on(view, window, settings, flight.at_ms)
        else:
            outlook.touch(window)

    def _place(self, view: ModelView, number: int, flight: Flight) -> bool:
        """Assign a batch to the best executor for it; return whether there was one."""
        outlook = self._outlook
        batch = outlook.state.batches.get(number)
        attempt, excluded = (1, ()) if batch is None else (batch.assigned + 1, batch.excluded)
        executor = view.able.best(excluded)
        if executor is None:
            return False
        outlook.add(r.Assign(number, attempt, executor.executor, executor.incarnation), flight)
        return True
