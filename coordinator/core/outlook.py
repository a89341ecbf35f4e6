"""The outlook: the applied state, and what the leader's own proposals in flight will make of it.

Only the leader has one, from the moment its Lead is applied. It chooses what to
propose and answers nobody, but for a refusal that changes nothing. It is an index
over the state without payloads: what is in flight is kept apart (`flights`), so
that each entry that is applied takes its own part away, and what remains is the
state. What lives here: that index. What must never live here: decisions
(`decide`). Called by: `decide`, the proposer. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappush
from itertools import islice

from coordinator.core import effects as e
from coordinator.core.admission import has_share, retry_after_ms
from coordinator.core.flights import Flight, InFlight
from coordinator.core.placement import ExecutorView
from coordinator.core.queues import ModelView
from coordinator.core.room import Drained, has_room
from coordinator.core.state import ModelId, State
from coordinator.core.table import ordered
from coordinator.core.usage import Usage
from coordinator.core.values import Request
from coordinator.core.windows import Pending, WindowView
from raftbatch import records as r
from raftbatch.kinds import Key

_ROWS_PER_STEP = 8192

_WINDOW_ROWS = 16
"""What a window costs beside its rows: many may hold a row each, and a turn for each is long."""

Uses = Mapping[object, Usage]
"""What is about to wait: in all (None), by model version, by tenant. None is there, or nothing."""

_NOTHING: Uses = {}
_NOBODY: Mapping[tuple[str, ModelId], int] = {}


class Outlook:
    """See the module's docstring.

    Args:
        state: of this replica; `build` has to run to its end before anything else.
        barred: executors that get nothing of a model version, as keys; see `unbegun`. Whoever
            changes it refreshes the executor.

    Attributes:
        state: the applied one.
        flying: what is in flight.
        at_ms: log time of the last entry, in flight or applied.
        now_ms: log time of the entry that is being made.
        next_request: number of the next request to be admitted.
        next_batch: number of the next batch to be sealed.
        windows: by key.
        models: by name and version.
        executors: by id.
        dirty: model versions for which there may be something to decide, as keys.
        eager: model versions with gathering windows that an idle executor may end, as keys.
        spent: batches to be bisected or quarantined, as keys.
        backoff: log time and number of batches that wait for it, a heap.
        due: log time and key of windows that ripen then, a heap.
        rows: outstanding at all executors.
        drained: when outcomes were acknowledged.
        is_stale: whether an own record was refused that never should be: nothing is
            decided until all that is in flight has been applied and this is built anew.
    """

    def __init__(self, state: State, barred: Mapping[tuple[str, ModelId], int] = _NOBODY) -> None:
        self.state = state
        self._barred = barred
        self.flying = InFlight(state)
        self.at_ms = self.now_ms = state.now_ms
        self.next_request = state.next_request
        self.next_batch = state.next_batch
        self.windows: dict[Key, WindowView] = {}
        self.models: dict[ModelId, ModelView] = {}
        self.executors: dict[str, ExecutorView] = {}
        self.dirty: dict[ModelId, None] = {}
        self.eager: dict[ModelId, None] = {}
        self.spent: dict[int, None] = {}
        self.backoff: list[tuple[int, int]] = []
        self.due: list[tuple[int, Key]] = []
        self.rows = 0
        self.drained = Drained(state.now_ms)
        self.is_stale = False
        self._waiting_at: dict[int, ModelView] = {}

    def build(self) -> Iterator[None]:
        """Make the index, a step at a time. Nothing is applied meanwhile."""
        state = self.state
        for name in ordered(state.executors):
            self.refresh_executor(name)
        for model_id in ordered(state.models):
            self.model(model_id)
        for number in ordered(state.batches):
            self.refresh_batch(number)
        yield
        left = _ROWS_PER_STEP
        # Not in their order: to sort a hundred thousand takes as long as an election's delay.
        for key in list(state.windows):
            view = self.windows[key] = WindowView(key)
            for _, lane in sorted(state.windows[key].lanes.items()):
                numbers = iter(list(lane))
                while some := list(islice(numbers, max(left, 1))):
                    for number in some:
                        view.add(number, state.requests[number])
                    left -= len(some)
                    if left <= 0:
                        yield
                        left = _ROWS_PER_STEP
            self.touch(view)
            left -= _WINDOW_ROWS

    def look(self, number: int) -> Request | Pending | None:
        """Return what waits under a number, or None where it has ended."""
        return self.state.requests.get(number) or self.flying.pending.get(number)

    def model(self, model_id: ModelId) -> ModelView:
        """Return the view of a model version, made where there is none."""
        view = self.models.get(model_id)
        if view is None:
            view = self.models[model_id] = ModelView(model_id)
            for executor in self.executors.values():
                if self._may_get(executor, model_id) and model_id in executor.models:
                    view.able.put(executor)
        return view

    def touch(self, view: WindowView) -> None:
        """Let a window be looked at with the next decision, if its model version is there."""
        if view.key[:2] not in self.state.models:
            if not view.requests:
                self.windows.pop(view.key, None)
            return
        self.model(view.key[:2]).touch(view)
        self.dirty[view.key[:2]] = None

    def overload(
        self,
        key: Key,
        tenant: str,
        rows: int,
        size: int,
        more: Uses = _NOTHING,
        count: int = 1,
        names: int = 0,
    ) -> tuple[e.Verdict, int]:
        """Return whether one more would be refused for load, and if so when to come back.

        What is in flight counts, and `more`, which is about to be: limit N means
        that N are accepted. Of several, whose rows and bytes are given in all: whether
        the last would be. Texts beyond their due (`texts`) are in their bytes; `names` are theirs.
        """
        state, model_id = self.state, key[:2]
        model = state.model_use.get(model_id)
        own: Usage | None = state.tenant_use.get(tenant)
        if model is None:
            return e.Verdict.UNKNOWN_MODEL, 0
        if own is None:
            own = Usage()
            own.limit_by_tenant(state.policy, tenant)
        uses = self.flying.uses, more
        every = _with(count, rows, size, uses, None)
        names += self.coming(more)[1]
        if not has_room(state, every[0], names) or not state.all_use.may_take(*every):
            return e.Verdict.OVERLOADED, retry_after_ms(state)
        is_roomy = model.may_take(*every) and own.may_take(*every)
        if is_roomy and has_share(state, tenant, own, every[0]):
            return e.Verdict.OK, 0  # mostly: if all of it were for this version and tenant
        if not model.may_take(*_with(count, rows, size, uses, model_id)):
            return e.Verdict.OVERLOADED, retry_after_ms(state)
        of_tenant = _with(count, rows, size, uses, tenant)
        if not (own.may_take(*of_tenant) and has_share(state, tenant, own, of_tenant[0])):
            return e.Verdict.QUOTA_EXCEEDED, retry_after_ms(state)
        return e.Verdict.OK, 0

    def coming(self, more: Uses) -> tuple[int, int]:
        """Return how many requests are about to wait, and what long names of theirs take more."""
        found = [use for uses in (self.flying.uses, more) if (use := uses.get(None)) is not None]
        return sum([use.requests for use in found]), sum([use.names for use in found])

    def joins(self, tenant: str, request_id: str) -> Flight | None:
        """Return the entry in flight whose fate a second Admit of this id shares."""
        return self.flying.names.get(f"{tenant}\0{request_id}")

    # What is proposed.

    def begin(self, at_ms: int) -> Flight:
        """Begin an entry of this log time."""
        self.now_ms = max(self.now_ms, at_ms)
        return Flight(at_ms)

    def add(self, record: r.Record, flight: Flight) -> None:
        """Put a record into an entry, and take note of what it will do."""
        flight.records.append(record)
        if isinstance(record, r.Admit):
            self.next_request = max(self.next_request, record.first + len(record.request_id))
            view: WindowView | None = None
            for number, pending in self.flying.foresee_admit(record, flight):
                if view is None or view.key != pending.key:
                    view = self._add_to_window(number, pending)
                else:
                    view.add(number, pending)
        else:
            if isinstance(record, r.Seal):
                self.next_batch = max(self.next_batch, record.batch + 1)
            elif isinstance(record, r.Bisect):
                self.next_batch = max(self.next_batch, record.right + 1)
            batches, executors = len(flight.batches), len(flight.executors)
            slots = len(flight.slots)
            self.flying.foresee(record, flight)
            if isinstance(record, r.Seal):
                self.refresh_batch(record.batch)
            for batch in flight.batches[batches:]:
                self.refresh_batch(batch)
            for executor in flight.executors[executors:]:
                self.refresh_executor(executor)
            for executor, *_ in flight.slots[slots:]:
                self.refresh_executor(executor)

    def commit(self, flight: Flight) -> None:
        """The entry was appended: it is in flight."""
        self.at_ms = max(self.at_ms, flight.at_ms)
        self.flying.flights.append(flight)

    def _add_to_window(self, number: int, request: Request | Pending) -> WindowView:
        view = self.windows.get(request.key)
        if view is None:
            view = self.windows[request.key] = WindowView(request.key)
        view.add(number, request)
        if not view.is_ripe:
            self.touch(view)
        return view

    # What is applied.

    def applied(self, applied: e.Applied) -> None:
        """The first entry in flight is in the state now; other leaders' are none of this."""
        flight = self.flying.flights.popleft()
        for record, reply in zip(flight.records, applied.replies, strict=True):
            self.is_stale |= _is_bug(record, reply)
            if isinstance(record, r.Admit) and isinstance(reply, e.Verdicts):
                self._land_admit(record, reply)
            elif isinstance(record, r.Acknowledge | r.Forget):
                self.drained.note(record, self.state.now_ms)
        # Before it lands: who ended in its Seals had been taken out of their windows already.
        for effect in applied.effects:
            self._follow(effect)
        self.flying.land(flight)
        for number in (*flight.sealed, *flight.batches):
            self.refresh_batch(number)
        for name in (*flight.executors, *[executor for executor, *_ in flight.slots]):
            self.refresh_executor(name)
        for model_id in flight.models:
            self._refresh_model(model_id)

    def _land_admit(self, record: r.Admit, reply: e.Verdicts) -> None:
        """Take those out of their windows that were refused after all, and the other way round."""
        for number, verdict in enumerate(reply.verdicts, record.first):
            pending = self.flying.pending.get(number)
            if verdict and pending is not None:
                self._left(number, pending)
            elif not verdict and pending is None and number in self.state.requests:
                self._add_to_window(number, self.state.requests[number])
        for key in record.keys:
            view = self.windows.get(key)
            if view is not None and not view.is_ripe:
                self.touch(view)

    def _left(self, number: int, request: Request | Pending) -> None:
        """Count a request no more, unless a Seal in flight has taken it out of its window."""
        view = self.windows.get(request.key)
        if view is not None and number not in self.flying.taken:
            view.left(request)
            if not view.requests:
                self.touch(view)

    def _follow(self, effect: e.Effect) -> None:
        match effect:
            case e.Ended(requests, batch):
                if not batch:
                    for request in requests:
                        self._left(request.number, request)
                else:
                    self.refresh_batch(batch)
                    if batch in self.state.batches:
                        self.refresh_executor(self.state.batches[batch].executor)
            case e.Placed() | e.Revoked() | e.Shed() | e.Finished():
                self.refresh_batch(effect.batch)
                self.refresh_executor(effect.executor)
            case e.BatchGone() | e.BatchWaits():
                self.refresh_batch(effect.batch)
            case e.ExecutorChanged():
                self.refresh_executor(effect.executor)
            case e.ModelChanged():
                self._refresh_model((effect.name, effect.version))
            case e.Led() | e.PolicyChanged():
                pass

    def refresh_batch(self, number: int) -> None:
        """Let a batch stand where it belongs, by the state and by what is in flight."""
        batch = self.state.batches.get(number)
        sealed = self.flying.sealing.get(number)
        self.spent.pop(number, None)
        key = batch.key if batch is not None else sealed.key if sealed is not None else None
        if key is None or number in self.flying.busy or (batch is not None and batch.executor):
            waited_at = self._waiting_at.pop(number, None)
            if waited_at is not None:
                waited_at.remove_batch(number)
        elif batch is not None and batch.is_exhausted:
            self.spent[number] = None
        elif batch is not None and batch.not_before_ms > self.now_ms:
            heappush(self.backoff, (batch.not_before_ms, number))
        else:
            view = self._waiting_at[number] = self.model(key[:2])
            view.add_batch(number)
            self.dirty[view.model_id] = None

    def refresh_executor(self, name: str) -> None:
        """Let an executor be seen as it is, by the state and by what is in flight."""
        executor = self.state.executors.get(name)
        view = self.executors.get(name)
        before = view.free if view is not None and view.is_able else 0
        self.rows -= view.rows if view is not None else 0
        if view is not None and (
            executor is None
            or view.incarnation != executor.incarnation
            or view.models != executor.models
        ):
            for model_id in view.models:
                if model_id in self.models:
                    self.models[model_id].able.remove(name)
            del self.executors[name]
            view, before = None, 0
        if executor is None:
            return
        if view is None:
            view = self.executors[name] = ExecutorView(name, executor.incarnation)
            view.models = executor.models
        self.flying.weigh(executor, view)
        self.rows += view.rows
        for model_id in view.models:
            model = self.models.get(model_id)
            if model is None:
                continue
            if self._may_get(view, model_id):
                model.able.put(view)
                if view.free > before:
                    self.dirty[model_id] = None
            else:
                model.able.remove(name)

    def _may_get(self, view: ExecutorView, model_id: ModelId) -> bool:
        return view.is_able and (view.executor, model_id) not in self._barred

    def _refresh_model(self, model_id: ModelId) -> None:
        use = self.state.model_use.get(model_id)
        if use is None:
            self.models.pop(model_id, None)
            self.dirty.pop(model_id, None)
            self.eager.pop(model_id, None)
            for view in [each for each in self.windows.values() if each.key[:2] == model_id]:
                # What is in flight for it may find it put anew.
                view.is_touched = view.is_ripe = False
                view.due_ms = 0
                self.touch(view)
            return
        self.model(model_id)
        self.dirty[model_id] = None
        for key in use.windows:
            if key in self.windows:
                self.touch(self.windows[key])


def _with(
    requests: int, rows: int, size: int, each_uses: tuple[Uses, Uses], whose: object
) -> tuple[int, int, int]:
    """Return so much, and what is about to wait beside it."""
    for uses in each_uses:
        use = uses.get(whose)
        if use is not None:
            requests += use.requests
            rows += use.rows
            size += use.size + use.texts
    return requests, rows, size


_DECISIONS = r.Admit | r.Seal | r.Assign | r.Bisect | r.Quarantine


def _is_bug(record: r.Record, reply: e.Reply | e.Verdicts) -> bool:
    """Return whether a decision was refused though all it presupposed was foreseen."""
    refusals = (e.Verdict.VOID, e.Verdict.NOT_LEADER, e.Verdict.STALE_INCARNATION)
    return isinstance(record, _DECISIONS) and reply.verdict in refusals
