"""What the leader has in flight: entries that are appended, and not applied yet.

Each entry notes what it keeps from being decided about, and gives that back when
it lands. Where a record in flight may have effects that cannot be foreseen (a
failure may suspend an executor, new settings may close a model), its subject is
closed until then. What lives here: those notes. What must never live here: what
is decided. Called by: `outlook`. Total. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import add
from typing import TypeVar

from coordinator.core.admission import is_never, usable
from coordinator.core.columns import at, places_of
from coordinator.core.placement import ExecutorView
from coordinator.core.state import ModelId, State
from coordinator.core.usage import Usage, usage_of
from coordinator.core.values import Executor
from coordinator.core.windows import Pending
from raftbatch import records as r
from raftbatch.kinds import Key, OutcomeKind, Ran
from raftbatch.settings import Model

_K = TypeVar("_K")

_pending = partial(tuple.__new__, Pending)
"""As the class itself, without the checks of a call by names: there are many."""


@dataclass(slots=True, eq=False)
class Flight:
    """An entry from its beginning until it is applied, and what it keeps.

    Attributes:
        at_ms: its log time.
        records: in it.
        names: ids it admits.
        numbers: the requests of these.
        uses: what these are: of all (None), of a model version, of a tenant.
        sealed: batches it makes.
        batches: batches it does something about.
        executors: executors nothing is assigned to meanwhile.
        models: model versions about which nothing is decided meanwhile.
        slots: executor, incarnation, model version, rows and 1, of slots it takes, or -1, of
            those it gives.
    """

    at_ms: int
    records: list[r.Record] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    uses: list[tuple[object, Usage]] = field(default_factory=list)
    sealed: list[int] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    executors: list[str] = field(default_factory=list)
    models: list[ModelId] = field(default_factory=list)
    slots: list[tuple[str, int, ModelId, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A batch whose Seal is in flight.

    Attributes:
        key: of its requests.
        numbers: of them.
        rows: of all.
        size: bytes of all.
    """

    key: Key
    numbers: tuple[int, ...]
    rows: int
    size: int


@dataclass(slots=True)
class _Slots:
    """What is in flight about the slots of an executor's life.

    Attributes:
        taken: slots.
        rows: in them.
        held: slots by model version.
        count: how many records it is.
    """

    taken: int = 0
    rows: int = 0
    held: dict[ModelId, int] = field(default_factory=dict)
    count: int = 0

    def add(self, model_id: ModelId, rows: int, sign: int) -> None:
        """Take a slot, or give it back."""
        self.taken += sign
        self.rows += sign * rows
        self.held[model_id] = self.held.get(model_id, 0) + sign


class InFlight:
    """All entries in flight, by what they are about.

    Attributes:
        flights: in order.
        names: ids whose Admit is in flight: in which entry.
        pending: requests whose Admit is in flight, by number.
        taken: requests that a Seal in flight takes out of their window, as keys.
        sealing: batches whose Seal is in flight, by number.
        busy: batches about which something is in flight, and how many things.
        closed: executors that something in flight is about, and how many things.
        frozen: model versions likewise.
        uses: what is in flight of Admits: in all (None), by model version, by tenant.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.flights: deque[Flight] = deque()
        self.names: dict[str, Flight] = {}
        self.pending: dict[int, Pending] = {}
        self.taken: dict[int, None] = {}
        self.sealing: dict[int, Sealed] = {}
        self.busy: dict[int, int] = {}
        self.closed: dict[str, int] = {}
        self.frozen: dict[ModelId, int] = {}
        self.uses: dict[object, Usage] = {}
        self._slots: dict[tuple[str, int], _Slots] = {}

    def foresee_admit(self, record: r.Admit, flight: Flight) -> list[tuple[int, Pending]]:
        """Take note of requests in flight; return those that may be admitted, by number.

        Load is not foreseen: those that are refused for it come back when it lands.
        """
        keys, at_ms = record.keys, flight.at_ms
        models = [usable(self._state, key) for key in keys]
        scopes = [f"{tenant}\0" for tenant in record.tenants]
        names: Sequence[str] = [
            scopes[tenant] + request_id
            for tenant, request_id in zip(record.tenant, record.request_id, strict=True)
        ]
        sizes: Sequence[int] = [*map(add, map(len, record.payload), map(len, record.parameters))]
        places = self._foreseen(record, models, names, sizes)
        if not places:
            return []
        names, sizes, rows = at(names, places), at(sizes, places), at(record.rows, places)
        key_of, tenant_of = at(record.key, places), at(record.tenant, places)
        defaults = [0 if model is None else model.default_timeout_ms for model in models]
        limits = [
            timeout_ms or defaults[key]
            for timeout_ms, key in zip(at(record.timeout_ms, places), key_of, strict=True)
        ]
        columns = zip(
            [keys[key] for key in key_of],
            rows,
            sizes,
            at(record.priority, places),
            repeat(at_ms),
            [limit_ms and at_ms + limit_ms for limit_ms in limits],
            strict=False,  # one of them has no end
        )
        numbers = at(range(record.first, record.first + len(record.request_id)), places)
        found = [*zip(numbers, map(_pending, columns), strict=True)]
        self.names.update(dict.fromkeys(names, flight))
        self.pending.update(found)
        flight.names += names
        flight.numbers += numbers
        for (key, tenant), of_both in places_of([*zip(key_of, tenant_of, strict=True)]).items():
            use = usage_of(
                keys[key],
                at(names, of_both),
                at(at(record.traceparent, places), of_both),
                sum(at(rows, of_both)),
                sum(at(sizes, of_both)),
            )
            for whose in (None, keys[key][:2], record.tenants[tenant]):
                self.uses.setdefault(whose, Usage()).add_all(use)
                flight.uses.append((whose, use))
        return found

    def _foreseen(
        self,
        record: r.Admit,
        models: Sequence[Model | None],
        names: Sequence[str],
        sizes: Sequence[int],
    ) -> Sequence[int]:
        """Return where, in an Admit, those stand that may be admitted. Mostly that is all."""
        state, flying, known = self._state, self.names, self._state.dedupe
        most = max(record.rows), max(record.priority), max(sizes)
        if (
            not any(model is None or is_never(state, model, *most) for model in models)
            and len(set(names)) == len(names)
            and flying.keys().isdisjoint(names)
            and known.keys().isdisjoint(names)
        ):
            return range(len(names))
        found: dict[str, int] = {}
        for place, name in enumerate(names):
            model = models[record.key[place]]
            if model is None or name in flying or name in known or name in found:
                continue
            if not is_never(state, model, record.rows[place], record.priority[place], sizes[place]):
                found[name] = place
        return [*found.values()]

    def foresee(self, record: r.Record, flight: Flight) -> None:
        """Take note of any other record. A Seal's requests were put into `sealing` before."""
        match record:
            case r.Seal():
                flight.sealed.append(record.batch)
                self.taken.update(dict.fromkeys(record.numbers))
            case r.Assign():
                self._about(record.batch, flight)
                self._slot(record, 1, flight)
            case r.Complete():
                self._foresee_report(record, flight)
            case r.Lapse():
                batch = self._state.batches.get(record.batch)
                if batch is not None and record.ran is Ran.YES:
                    self._close(batch.executor, flight)
                self._about(record.batch, flight)
            case r.Bisect() | r.Quarantine():
                self._about(record.batch, flight)
            case r.Join() | r.Leave() | r.Drain() | r.Ready() | r.Probe() | r.Free():
                self._close(record.executor, flight)
            case r.PutModel():
                self._freeze((record.model.name, record.model.version), flight)
            case r.DeleteModel():
                self._freeze((record.name, record.version), flight)
            case _:
                pass

    def _foresee_report(self, record: r.Complete, flight: Flight) -> None:
        """The last part of a report returns its slot, if nothing else in flight comes before."""
        batch = self._state.batches.get(record.batch)
        is_first = (
            batch is not None
            and record.batch not in self.busy
            and (batch.fence, batch.executor) == (record.fence, record.executor)
            and (batch.assigned, batch.incarnation) == (record.attempt, record.incarnation)
            and frozenset(batch.members).issuperset(record.numbers)
        )
        if record.last and record.kind and OutcomeKind.OK not in record.kind:
            self._close(record.executor, flight)  # it may be suspended for that
        elif is_first and record.last:
            self._slot(record, -1, flight)
        self._about(record.batch, flight)

    def land(self, flight: Flight) -> None:
        """Give back what an entry kept: it is applied."""
        for name in flight.names:
            del self.names[name]
        for number in flight.numbers:
            del self.pending[number]
        for whose, use in flight.uses:
            self.uses[whose].take_away(use)
            if not self.uses[whose].requests:
                del self.uses[whose]
        for batch in flight.sealed:
            for number in self.sealing.pop(batch).numbers:
                self.taken.pop(number, None)
        for batch in flight.batches:
            _less(self.busy, batch)
        for executor in flight.executors:
            _less(self.closed, executor)
        for model_id in flight.models:
            _less(self.frozen, model_id)
        for executor, incarnation, model_id, rows, sign in flight.slots:
            slots = self._slots[executor, incarnation]
            slots.add(model_id, rows, -sign)
            slots.count -= 1
            if not slots.count:
                del self._slots[executor, incarnation]

    def weigh(self, executor: Executor, view: ExecutorView) -> None:
        """Set what an executor's view has of slots and rows."""
        key = executor.executor, executor.incarnation
        slots = self._slots.get(key) or _Slots()
        batches, held, rows = self._state.batches, dict(slots.held), slots.rows
        for each in executor.held:
            batch = batches.get(each.batch)
            if batch is not None:  # else it has ended, and the device has not
                held[batch.key[:2]] = held.get(batch.key[:2], 0) + 1
                rows += 0 if each.is_lapsed else batch.rows
        view.free, view.rows = executor.free_slots - slots.taken, rows
        view.held = {model_id: count for model_id, count in held.items() if count > 0}
        view.spare = view.free
        if executor.slots >= len(view.models):
            view.spare -= sum([model_id not in view.held for model_id in view.models])
        view.is_able = executor.takes_new and executor.executor not in self.closed

    def _about(self, batch: int, flight: Flight) -> None:
        self.busy[batch] = self.busy.get(batch, 0) + 1
        flight.batches.append(batch)

    def _close(self, executor: str, flight: Flight) -> None:
        self.closed[executor] = self.closed.get(executor, 0) + 1
        flight.executors.append(executor)

    def _freeze(self, model_id: ModelId, flight: Flight) -> None:
        self.frozen[model_id] = self.frozen.get(model_id, 0) + 1
        flight.models.append(model_id)

    def _slot(self, record: r.Assign | r.Complete, sign: int, flight: Flight) -> None:
        batch = self._state.batches.get(record.batch) or self.sealing[record.batch]
        model_id, rows = batch.key[:2], batch.rows
        slots = self._slots.setdefault((record.executor, record.incarnation), _Slots())
        slots.add(model_id, rows, sign)
        slots.count += 1
        flight.slots.append((record.executor, record.incarnation, model_id, rows, sign))


def _less(counts: dict[_K, int], key: _K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
