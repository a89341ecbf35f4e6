"""Taking requests in: known ids, what can never run, and what is too much.

An id that is known is answered by what is known of it, also where nothing more
would be taken in. What lives here: Admit. What must never live here: anything
about batches. Called by: `apply`. Total. Deterministic.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from operator import add

from coordinator.core import texts
from coordinator.core.columns import at, places_of
from coordinator.core.effects import Verdict, Verdicts
from coordinator.core.state import State
from coordinator.core.usage import Usage
from coordinator.core.values import Request
from raftbatch.kinds import Key
from raftbatch.records import Admit
from raftbatch.settings import Model

NUMBERS_SKIPPED_MAX = 1 << 32
"""How far a proposer may leave numbers out: none needs to, and they must not run out."""

_request = partial(tuple.__new__, Request)
"""As the class itself, without the checks of a call by names: there are many."""

FORGET_LATE_MS = 1000
"""By so much later than it might an outcome, or an id, goes where nothing else is written."""

_RETRY_MS_MIN = 10
_RETRY_MS_MAX = 60_000
_RETRY_MS_UNKNOWN = 1000
_ROOM_PERMILLE = 125
"""A caller comes back when an eighth of what waits has gone."""


def admit(state: State, record: Admit) -> Verdicts:
    """Take in what can be."""
    count = len(record.request_id)
    first = record.first
    if not state.next_request <= first <= state.next_request + NUMBERS_SKIPPED_MAX:
        return Verdicts(bytes([Verdict.VOID]) * count)
    state.next_request = first + count
    taking = _Taking(state, record)
    if taking.is_roomy():
        taking.take_all()
    else:
        for place in range(count):
            taking.take(place)
    return taking.verdicts()


def retry_after_ms(state: State) -> int:
    """Return when to come back, by the rate at which requests have been ending."""
    if not state.drained_per_s:
        return _RETRY_MS_UNKNOWN
    gone = state.all_use.requests * _ROOM_PERMILLE // 1000 + 1
    return max(_RETRY_MS_MIN, min(_RETRY_MS_MAX, gone * 1000 // state.drained_per_s))


def has_ids(state: State, count: int) -> bool:
    """Return whether so many ids more may be known."""
    return len(state.dedupe) + count <= state.policy.dedupe_entries_max


def ids_after_ms(state: State, now_ms: int) -> int:
    """Return when an id goes next, which is all that makes room where as many are known as may.

    Args:
        state: the applied one.
        now_ms: log time by the leader's clock.
    """
    oldest = state.ended.get(state.oldest_ended)
    ended_ms = now_ms if oldest is None else oldest.at_ms
    due_ms = ended_ms + state.policy.dedupe_retention_ms + FORGET_LATE_MS
    return max(_RETRY_MS_MIN, due_ms - now_ms)


class _Taking:
    """One Admit being applied.

    Mostly all of it can be taken, and that is seen from its sums at once; then
    what is left to do for each request is little. Else they are looked at one by
    one. Both ways give the same.
    """

    __slots__ = (
        "_models",
        "_names",
        "_record",
        "_refused",
        "_said",
        "_sizes",
        "_state",
        "_tickets",
    )

    def __init__(self, state: State, record: Admit) -> None:
        self._state = state
        self._record = record
        self._models = [usable(state, key) for key in record.keys]
        scopes = [f"{tenant}\0" for tenant in record.tenants]
        self._names = [
            scopes[place] + request_id
            for place, request_id in zip(record.tenant, record.request_id, strict=True)
        ]
        self._sizes = [*map(add, map(len, record.payload), map(len, record.parameters))]
        self._refused: dict[int, Verdict] = {}
        self._said: list[tuple[int, str]] = []
        self._tickets: list[tuple[int, int]] = []

    def is_roomy(self) -> bool:
        """Return whether every request may be taken."""
        state, record = self._state, self._record
        rows_max, size_max = max(record.rows), max(self._sizes)
        priority_max = max(record.priority)
        policy = state.policy
        for model in self._models:
            if model is None or not (
                rows_max <= model.rows_max
                and priority_max < model.priority_levels
                and size_max <= model.max_batch_bytes
                and size_max <= policy.request_bytes_max
            ):
                return False
        count, rows, size = len(self._sizes), sum(record.rows), sum(self._sizes)
        if len(set(self._names)) < count or not state.dedupe.keys().isdisjoint(self._names):
            return False
        uses = [state.model_use[key[:2]] for key in record.keys]
        tenants = [state.use_of_tenant(tenant) for tenant in record.tenants]
        return (
            all(
                use is not None
                and use.fits(count, rows, size)
                and has_share(state, name, use, count)
                for name, use in zip(record.tenants, tenants, strict=True)
            )
            and all(use.fits(count, rows, size) for use in (state.all_use, *uses))
            and len(state.windows) + len(uses) <= policy.windows_max
            and has_room(state, count)
        )

    def take_all(self) -> None:
        """Take in all, as `is_roomy` found that it can be: whole columns at a time."""
        state, record = self._state, self._record
        at_ms, keys = state.now_ms, record.keys
        numbers = range(record.first, record.first + len(self._names))
        defaults = [model.default_timeout_ms for model in self._models if model is not None]
        timeouts = [
            timeout or defaults[key]
            for timeout, key in zip(record.timeout_ms, record.key, strict=True)
        ]
        rows = zip(
            numbers,
            self._names,
            [keys[key] for key in record.key],
            record.rows,
            record.priority,
            repeat(at_ms),
            [timeout and at_ms + timeout for timeout in timeouts],
            repeat(state.index),
            record.content_hash,
            self._sizes,
            record.payload,
            record.parameters,
            record.traceparent,
            strict=False,  # two of them have no end
        )
        state.requests.update(zip(numbers, map(_request, rows), strict=True))
        state.dedupe.update(zip(self._names, numbers, strict=True))
        for timeout, places in places_of(timeouts).items():
            if timeout:
                bucket = state.timers.bucket(at_ms, at_ms + timeout)
                bucket.update(dict.fromkeys(at(numbers, places)))
        for key, places in places_of(record.key).items():
            window = state.window(keys[key])
            priorities = at(record.priority, places)
            of_key = at(numbers, places)
            for priority, found in places_of(priorities).items():
                window.lane(priority).update(dict.fromkeys(at(of_key, found)))
        self._count_all()

    def _count_all(self) -> None:
        """Count what was taken, by key and tenant."""
        state, record = self._state, self._record
        state.id_texts += texts.of_names(self._names)
        self._count_texts()
        pairs = list(zip(record.key, record.tenant, strict=True))
        for (key, tenant), places in places_of(pairs).items():
            rows, size = sum(at(record.rows, places)), sum(at(self._sizes, places))
            batch_key = record.keys[key]
            uses = (
                state.all_use,
                state.model_use[batch_key[:2]],
                state.tenant_use[record.tenants[tenant]],
                state.windows[batch_key],
            )
            for use in uses:
                use.requests += len(places)
                use.rows += rows
                use.size += size

    def _count_texts(self) -> None:
        """Count what texts of all take beyond what is allowed for them: mostly nothing."""
        state, record = self._state, self._record
        if texts.are_short(record.keys, record.traceparent):
            return
        keys = [record.keys[key] for key in record.key]
        beyond = texts.of_requests(keys, record.traceparent)
        for key, tenant, size in zip(keys, record.tenant, beyond, strict=True):
            own = state.tenant_use[record.tenants[tenant]]
            for use in (state.all_use, state.model_use[key[:2]], own):
                use.texts += size

    def _meet(self, place: int, known: int) -> None:
        """Answer for an id that is known."""
        verdict, ticket = answer_known(self._state, known, self._record.content_hash[place])
        self._refused[place] = verdict
        if verdict in (Verdict.KNOWN, Verdict.ENDED):
            self._tickets.append((place, ticket))

    def take(self, place: int) -> None:
        """Take one request in, or answer why not."""
        state, record = self._state, self._record
        name = self._names[place]
        known = state.dedupe.get(name)
        if known is not None:
            self._meet(place, known)
            return
        model, key = self._models[record.key[place]], record.keys[record.key[place]]
        if model is None:
            self._refused[place] = Verdict.UNKNOWN_MODEL
            return
        rows, size, priority = record.rows[place], self._sizes[place], record.priority[place]
        said = why_never(state, model, rows, priority, size)
        if said:
            self._refused[place], text = said
            self._said.append((place, text))
            return
        tenant = record.tenants[record.tenant[place]]
        uses = [state.all_use, state.model_use[key[:2]]]
        own = state.use_of_tenant(tenant)
        has_window = key in state.windows or len(state.windows) < state.policy.windows_max
        if (
            own is None
            or not has_window
            or not has_room(state, 1)
            or not all(use.fits(1, rows, size) for use in uses)
        ):
            self._refused[place] = Verdict.OVERLOADED
        elif not own.fits(1, rows, size) or not has_share(state, tenant, own, 1):
            self._refused[place] = Verdict.QUOTA_EXCEEDED
        else:
            number = record.first + place
            timeout_ms = record.timeout_ms[place] or model.default_timeout_ms
            deadline_ms = state.now_ms + timeout_ms if timeout_ms else 0
            request = Request(
                number,
                name,
                key,
                rows,
                priority,
                state.now_ms,
                deadline_ms,
                state.index,
                record.content_hash[place],
                size,
                record.payload[place],
                record.parameters[place],
                record.traceparent[place],
            )
            state.requests[number] = request
            state.dedupe[name] = number
            state.id_texts += texts.of_name(name)
            beyond = texts.of_request(key, record.traceparent[place])
            for use in (*uses, own):
                use.add(rows, size, beyond)
            state.add_to_window(request)
            if timeout_ms:
                state.timers.bucket(state.now_ms, deadline_ms)[number] = None

    def verdicts(self) -> Verdicts:
        """Return the answers to all."""
        state, record = self._state, self._record
        for tenant in record.tenants:
            state.forget_idle_tenant(tenant)
        count = len(record.request_id)
        state.counters.admitted += count - len(self._refused)
        if not self._refused:
            return Verdicts(bytes(count))
        answers = bytearray(count)
        for place, verdict in self._refused.items():
            answers[place] = verdict
        state.counters.refused += sum([each > Verdict.ENDED for each in answers])
        loaded = Verdict.OVERLOADED in answers or Verdict.QUOTA_EXCEEDED in answers
        return Verdicts(
            bytes(answers),
            tuple(self._tickets),
            tuple(self._said),
            retry_after_ms(state) if loaded else 0,
        )


def answer_known(state: State, known: int, content_hash: bytes) -> tuple[Verdict, int]:
    """Return what a second Admit of an id is answered, and the ticket of the first.

    Args:
        state: it knows the id.
        known: as `State.dedupe` has it.
        content_hash: of what is asked for now.
    """
    if known >= 0:
        request = state.requests[known]
        same = request.content_hash == content_hash
        return Verdict.KNOWN if same else Verdict.REQUEST_ID_CONFLICT, request.ticket
    outcome = state.ended[~known]
    if outcome.content_hash not in (b"", content_hash):
        return Verdict.REQUEST_ID_CONFLICT, outcome.ticket
    return Verdict.ENDED if outcome.is_kept else Verdict.OUTCOME_FORGOTTEN, outcome.ticket


def has_room(state: State, count: int) -> bool:
    """Return whether ids and outcomes leave room for so many requests more."""
    policy = state.policy
    reserved = (state.all_use.requests + count) * policy.outcome_reserve_bytes
    return has_ids(state, count) and state.outcome_bytes + reserved <= policy.outcome_bytes_max


def has_share(state: State, tenant: str, own: Usage, count: int) -> bool:
    """Return whether a tenant's outcomes leave room for so many requests more of its own.

    Args:
        state: the applied one.
        tenant: whose.
        own: what it has waiting, and may.
        count: how many more, with those in flight.
    """
    if not own.outcomes_max:
        return True
    reserved = (own.requests + count) * state.policy.outcome_reserve_bytes
    return state.tenant_outcomes.get(tenant, 0) + reserved <= own.outcomes_max


def is_never(state: State, model: Model, rows: int, priority: int, size: int) -> bool:
    """Return whether a request can never be taken; `why_never` says why."""
    return (
        rows > model.rows_max
        or priority >= model.priority_levels
        or size > model.max_batch_bytes
        or size > state.policy.request_bytes_max
    )


def why_never(
    state: State, model: Model, rows: int, priority: int, size: int
) -> tuple[Verdict, str] | None:
    """Return why a request can never be taken, naming the limit; None: it can."""
    if rows > model.rows_max:
        said = f"{rows} rows are more than max_batch_size = {model.max_batch_size}"
        return Verdict.INVALID_REQUEST, said
    if priority >= model.priority_levels:
        said = f"priority {priority} is none of priority_levels = {model.priority_levels}"
        return Verdict.INVALID_REQUEST, said
    limits = {
        "max_batch_bytes": model.max_batch_bytes,
        "request_bytes_max": state.policy.request_bytes_max,
    }
    for limit, most in limits.items():
        if size > most:
            return Verdict.PAYLOAD_TOO_LARGE, f"{size} bytes are more than {limit} = {most}"
    return None


def usable(state: State, key: Key) -> Model | None:
    """Return the model version that requests of a key may be for; None: there is none."""
    return None if key[:2] in state.deleting else state.models.get(key[:2])
