"""Drawn records: mostly such as might do something in a state, some that never should."""

from __future__ import annotations

import random
from collections.abc import Callable

from coordinator.core.apply import apply
from coordinator.core.effects import Applied
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.kinds import Key, LapseReason, Ran, Release
from raftbatch.settings import Model, Policy, TenantLimits

MODELS = (("bert", "1"), ("bert", "2"), ("llm", "1"))
SIGNATURES = ("a", "b")
TENANTS = ("acme", "umbrella")
EXECUTORS = ("gpu-1", "gpu-2", "gpu-3")


class Drawing:
    """Draws entries and applies them, through their bytes.

    Args:
        seed: decides everything.

    Attributes:
        state: what they were applied to.
        draw: the source of chance.
        entries: what was applied: index, term, bytes.
        seen: verdicts that replies had, by kind of record.
    """

    def __init__(self, seed: int) -> None:
        self.state = State()
        self.draw = random.Random(seed)
        self.entries: list[tuple[int, int, bytes]] = []
        self.seen: dict[str, set[int]] = {}
        self._term = 1

    def step(self) -> Applied:
        """Draw an entry, and apply it."""
        draw, state = self.draw, self.state
        records: list[r.Record] = []
        if not self.entries or draw.random() < 0.02:
            self._term += 1
            records.append(r.Lead(draw.choice(("n1", "n2")), 5, draw.randint(0, 3)))
        if not self.entries:
            records += [
                r.PutModel(Model(*model, max_batch_size=8, attempts_max=1)) for model in MODELS
            ]
            records += [r.Join(name, 0, 2, MODELS, b"") for name in EXECUTORS]
        for _ in range(draw.choice((1, 1, 1, 2, 3, 5))):
            drawn = draw.choices(_KINDS, _WEIGHTS)[0](self)
            records.append(drawn)
            if draw.random() < 0.05:
                records.append(drawn)
        at_ms = state.now_ms + draw.choice((0, 0, 0, 0, 1, 1, 2, 5, 20, 20, 50, 300))
        if draw.random() < 0.01:
            at_ms = max(0, state.now_ms + draw.choice((-1000, -5, 5000, 3_600_000)))
        proposed = self._term - (draw.random() < 0.02)
        entry = r.Entry(max(1, proposed), at_ms, tuple(records))
        return self.apply(state.index + draw.choice((1, 1, 2)), self._term, entry)

    def apply(self, index: int, term: int, entry: r.Entry) -> Applied:
        """Apply an entry through its bytes."""
        data = encode_entry(entry)
        self.entries.append((index, term, data))
        applied = apply(self.state, index, term, decode_entry(data))
        assert len(applied.replies) == len(entry.records)
        for record, reply in zip(entry.records, applied.replies, strict=True):
            verdicts = getattr(reply, "verdicts", None) or (reply.verdict,)
            self.seen.setdefault(type(record).__name__, set()).update(map(int, verdicts))
        return applied

    def key(self) -> Key:
        """Draw a batch key."""
        return (*self.draw.choice(MODELS), self.draw.choice(SIGNATURES))

    def number(self) -> int:
        """Draw the number of a request, mostly of one that is there."""
        known = list(self.state.requests)
        if known and self.draw.random() < 0.95:
            return self.draw.choice(known)
        return self.draw.randint(1, self.state.next_request + 1)

    def name(self) -> tuple[str, str]:
        """Draw a tenant and a request id, mostly of those that were seen."""
        return self.draw.choice(TENANTS), f"r{self.draw.randint(0, 500)}"

    def incarnation(self, executor: str) -> int:
        """Draw an incarnation of an executor, mostly the live one."""
        live = self.state.executors.get(executor)
        if live is None or self.draw.random() < 0.05:
            return self.draw.randint(1, self.state.index + 1)
        return live.incarnation


def _admit(drawing: Drawing) -> r.Record:
    draw = drawing.draw
    count = draw.randint(1, 12)
    keys = tuple(dict.fromkeys(drawing.key() for _ in range(2)))
    names = [drawing.name() for _ in range(count)]
    tenants = tuple(dict.fromkeys(tenant for tenant, _ in names))
    first = drawing.state.next_request + draw.choice((0, 0, 0, 0, 7))
    if draw.random() < 0.03:
        first = draw.choice((1, max(1, first - 1), 1 << 62))
    large = draw.random() < 0.1
    return r.Admit(
        first,
        keys,
        tenants,
        tuple(draw.randrange(len(keys)) for _ in names),
        tuple(tenants.index(tenant) for tenant, _ in names),
        tuple(request_id for _, request_id in names),
        tuple(draw.choice((b"h", b"h", b"h", b"other")) for _ in names),
        tuple(draw.choice((1, 1, 1, 2, 3, 20 if large else 1)) for _ in names),
        tuple(draw.choice((0, 1, 2, 7 if large else 2)) for _ in names),
        tuple(draw.choice((0, 0, 300, 300, 5000, 5001)) for _ in names),
        tuple(bytes(draw.choice((0, 5, 40, 2000 if large else 9))) for _ in names),
        tuple(draw.choice((b"", b"p")) for _ in names),
        ("",) * count,
    )


def _cancel(drawing: Drawing) -> r.Record:
    names = [drawing.name() for _ in range(drawing.draw.randint(1, 4))]
    kind = drawing.draw.choice((r.Cancel, r.Cancel, r.Acknowledge, r.Forget))
    tenants = tuple(tenant for tenant, _ in names)
    return kind(tenants, tuple(request_id for _, request_id in names))


def _seal(drawing: Drawing) -> r.Record:
    draw, state = drawing.draw, drawing.state
    key = draw.choice(list(state.windows)) if state.windows else drawing.key()
    waiting = [
        n
        for lane in (state.windows[key].lanes.values() if key in state.windows else ())
        for n in lane
    ]
    numbers = waiting[: draw.randint(1, 4)]
    if draw.random() < 0.1 or not numbers:
        numbers.append(drawing.number())
    batch = state.next_batch + draw.choice((0, 0, 0, 3))
    if draw.random() < 0.03:
        batch = draw.choice((1, 1 << 61))
    return r.Seal(batch, key, draw.choice(list(Release)), tuple(dict.fromkeys(numbers)))


def _some_batch(drawing: Drawing, assigned: bool) -> int:
    state, draw = drawing.state, drawing.draw
    found = [
        n
        for n, batch in state.batches.items()
        if bool(batch.executor) == assigned and not batch.is_exhausted
    ]
    if found and draw.random() < 0.95:
        return draw.choice(found)
    return draw.randint(1, state.next_batch)


def _assign(drawing: Drawing) -> r.Record:
    number = _some_batch(drawing, assigned=False)
    batch = drawing.state.batches.get(number)
    executor = drawing.draw.choice(EXECUTORS)
    attempt = batch.assigned + 1 if batch and drawing.draw.random() < 0.95 else 1
    return r.Assign(number, attempt, executor, drawing.incarnation(executor))


def _current(drawing: Drawing) -> tuple[int, int, int]:
    number = _some_batch(drawing, assigned=True)
    batch = drawing.state.batches.get(number)
    if batch is None or not batch.executor or drawing.draw.random() < 0.04:
        return number, drawing.draw.randint(1, 3), drawing.draw.randint(1, 1 + drawing.state.index)
    return number, batch.assigned, batch.fence


def _lapse(drawing: Drawing) -> r.Record:
    draw = drawing.draw
    number, attempt, fence = _current(drawing)
    reason = draw.choice((*LapseReason, LapseReason.FAILED, LapseReason.FAILED))
    ran = draw.choice((*Ran, Ran.YES, Ran.YES, Ran.YES))
    code = draw.choice(("", "broken"))
    return r.Lapse(number, attempt, fence, reason, ran, draw.random() < 0.8, code, code)


def _complete(drawing: Drawing) -> r.Record:
    draw = drawing.draw
    number, attempt, fence = _current(drawing)
    batch = drawing.state.batches.get(number)
    members = batch.members if batch else (drawing.number(),)
    reported = tuple(n for n in members if draw.random() < 0.8)
    if draw.random() < 0.02:
        reported = tuple(dict.fromkeys((*reported, drawing.number())))
    executor = batch.executor if batch and batch.executor and draw.random() < 0.97 else "gpu-1"
    count = len(reported)
    kind = 1 if draw.random() < 0.2 else 0
    return r.Complete(
        number,
        attempt,
        fence,
        executor,
        drawing.incarnation(executor),
        draw.random() < 0.7,
        *(1, 2, 3, 4),
        (count,),
        b"f",
        reported,
        (kind,) * count,
        ("",) * count,
        ("",) * count,
        tuple(bytes(draw.choice((0, 3, 3, 300))) for _ in reported),
    )


def _bisect(drawing: Drawing) -> r.Record:
    state, draw = drawing.state, drawing.draw
    spent = [n for n, batch in state.batches.items() if batch.is_exhausted]
    if not spent:
        return _lapse(drawing)
    number = draw.choice(spent) if draw.random() < 0.95 else draw.randint(1, state.next_batch)
    left = state.next_batch + draw.choice((0, 0, 0, 2))
    batch = state.batches.get(number)
    if batch and len(batch.members) == 1 and draw.random() < 0.9:
        return r.Quarantine(number)
    return r.Bisect(number, left, left + draw.choice((1, 1, 1, 0, 1 << 60)))


def _executor(drawing: Drawing) -> r.Record:
    draw, state = drawing.draw, drawing.state
    name = draw.choice(EXECUTORS)
    suspended = [n for n, one in state.executors.items() if one.is_suspended]
    if suspended and draw.random() < 0.5:
        name = suspended[0]
        return r.Probe(name, drawing.incarnation(name), draw.random() < 0.8)
    incarnation = drawing.incarnation(name)
    models = tuple(model for model in MODELS if draw.random() < 0.8)
    held = state.executors[name].held if name in state.executors else ()
    match draw.randrange(8):
        case 0:
            return r.Ready(name, incarnation, models)
        case 1:
            return r.Drain(name, incarnation, draw.random() < 0.3)
        case 2:
            running = tuple(each.batch for each in held if draw.random() < 0.5)
            return r.Leave(name, incarnation, draw.random() < 0.7, tuple(dict.fromkeys(running)))
        case 3 | 4:
            return r.Free(
                name,
                incarnation,
                tuple(each.batch for each in held),
                tuple(each.fence for each in held),
            )
        case 5:
            return r.Probe(name, incarnation, draw.random() < 0.8)
        case _:
            replaces = incarnation if draw.random() < 0.3 else 0
            return r.Join(name, replaces, draw.randint(1, 3), models, b"")


def _operator(drawing: Drawing) -> r.Record:
    draw = drawing.draw
    model = draw.choice(MODELS)
    if drawing.state.deleting and draw.random() < 0.3:
        model = min(drawing.state.deleting)
    elif draw.random() < 0.06:
        return r.DeleteModel(*model)
    if draw.random() < 0.15:
        return r.ReleaseQuarantined((drawing.number(),))
    if draw.random() < 0.2:
        return r.PutPolicy(
            Policy(
                executor_failures_max=draw.choice((1, 2)),
                requests_waiting_max=draw.choice((20, 60, 1000)),
                tenant_requests_waiting_max=draw.choice((15, 40, 1000)),
                tenants_max=draw.choice((1, 2, 10)),
                windows_max=draw.choice((2, 100)),
                executors_max=draw.choice((2, 10)),
                models_max=draw.choice((2, 10)),
                result_bytes_max=draw.choice((100, 1000)),
                request_bytes_max=draw.choice((30, 3000)),
                outcome_retention_ms=draw.choice((500, 3000)),
                dedupe_retention_ms=draw.choice((3000, 9000)),
                outcome_bytes_max=draw.choice((8000, 1 << 20)),
                dedupe_entries_max=draw.choice((100, 10_000)),
                cancels_remembered_max=draw.choice((2, 50)),
                quarantine_requests_max=draw.choice((1, 3)),
                expire_per_entry_max=draw.choice((1, 3, 50)),
                tenants=(
                    TenantLimits(
                        "acme", draw.choice((5, 500)), 500, 90_000, draw.choice((0, 2000))
                    ),
                ),
                tenant_outcome_bytes_max=draw.choice((0, 0, 4000)),
            )
        )
    return r.PutModel(
        Model(
            *model,
            max_batch_size=draw.choice((0, 4, 4, 8)),
            max_batch_bytes=draw.choice((100, 4000)),
            attempts_max=draw.choice((1, 1, 2)),
            assigned_max=draw.choice((3, 10)),
            default_timeout_ms=draw.choice((0, 1000)),
            backoff_initial_ms=draw.choice((0, 10)),
            requests_waiting_max=draw.choice((10, 1000)),
        )
    )


def _advance(_drawing: Drawing) -> r.Record:
    return r.Advance()


_KINDS: tuple[Callable[[Drawing], r.Record], ...] = (
    _admit,
    _cancel,
    _seal,
    _assign,
    _lapse,
    _complete,
    _bisect,
    _executor,
    _operator,
    _advance,
)
_WEIGHTS = (14, 4, 22, 26, 10, 12, 8, 9, 3, 2)
