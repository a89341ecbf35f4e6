"""Requests in flight are foreseen as wholes; it is what a plain loop says of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from coordinator.core.admission import is_never, usable
from coordinator.core.flights import Flight, InFlight
from coordinator.core.windows import Pending
from raftbatch import records as r
from raftbatch.kinds import Key
from tests.unit.core.leading import Leading, put

_KEYS: tuple[Key, ...] = (("m", "1", "a"), ("n", "1", "a"), ("gone", "1", "a"))
_TENANTS = ("t", "u")
_AT_MS = 5000


def _led() -> Leading:
    """Return a leader with two models, and a request that is applied."""
    leading = Leading()
    leading.lead()
    leading.apply()
    other = put(default_timeout_ms=70, requests_waiting_max=500).model
    leading.propose(put(max_batch_size=3, priority_levels=2))
    leading.propose(r.PutModel(replace(other, name="n")))
    leading.propose(leading.admit("applied"))
    leading.apply()
    return leading


def _drawn(rng: Random, first: int) -> r.Admit:
    """Return an Admit, mostly of requests that all may be admitted."""
    count, is_odd = rng.choice([1, 2, 5, 9]), rng.random() < 0.5
    keys = _KEYS[: rng.choice([1, 2, 2, 3 if is_odd else 2])]
    ids = [f"r{number}" for number in range(count)]
    if is_odd:
        old = [*ids, "applied", "flying"]
        ids = [rng.choice(old) if rng.random() < 0.3 else each for each in ids]
    rows = (1, 2, 3, 4) if is_odd else (1, 2, 3)
    return r.Admit(
        first,
        keys,
        _TENANTS,
        tuple([rng.randrange(len(keys)) for _ in ids]),
        tuple([rng.randrange(2) for _ in ids]),
        tuple(ids),
        (b"h",) * count,
        tuple([rng.choice(rows) for _ in ids]),
        tuple([rng.randrange(3 if is_odd else 2) for _ in ids]),
        tuple([rng.choice((0, 0, 30)) for _ in ids]),
        tuple([bytes(rng.choice((5, 10, 300))) for _ in ids]),
        tuple([rng.choice((b"", b"{}")) for _ in ids]),
        ("",) * count,
    )


def _plainly(leading: Leading, record: r.Admit, flying: set[str]) -> dict[str, tuple[int, Pending]]:
    """Return what is foreseen, by name, one by one."""
    found: dict[str, tuple[int, Pending]] = {}
    for place, request_id in enumerate(record.request_id):
        key = record.keys[record.key[place]]
        name = f"{record.tenants[record.tenant[place]]}\0{request_id}"
        size = len(record.payload[place]) + len(record.parameters[place])
        rows, priority = record.rows[place], record.priority[place]
        model = usable(leading.state, key)
        if model is None or is_never(leading.state, model, rows, priority, size):
            continue
        if name in leading.state.dedupe or name in flying or name in found:
            continue
        limit_ms = record.timeout_ms[place] or model.default_timeout_ms
        deadline_ms = _AT_MS + limit_ms if limit_ms else 0
        pending = Pending(key, rows, size, priority, _AT_MS, deadline_ms)
        found[name] = record.first + place, pending
    return found


def test_what_is_foreseen_of_requests_is_what_a_plain_loop_says() -> None:
    whole = 0
    for seed in range(400):
        rng, leading = Random(seed), _led()
        flying = InFlight(leading.state)
        before = Flight(_AT_MS)
        flying.foresee_admit(leading.admit("flying"), before)
        record, flight = _drawn(rng, 100), Flight(_AT_MS)
        wanted = _plainly(leading, record, set(before.names))
        found = flying.foresee_admit(record, flight)
        whole += len(wanted) == len(record.request_id)
        assert found == [*wanted.values()]
        assert all(type(pending) is Pending for _, pending in found)
        assert (flight.names, flight.numbers) == ([*wanted], [number for number, _ in found])
        assert [flying.names[name] for name in flight.names] == [flight] * len(found)
        assert [flying.pending[number] for number, _ in found] == [each for _, each in found]
        uses: dict[object, tuple[int, int, int]] = {}
        of_before = [(name, flying.pending[1 + 1]) for name in before.names]
        for name, one in (*of_before, *[(name, each) for name, (_, each) in wanted.items()]):
            for whose in (None, one.key[:2], name.partition("\0")[0]):
                requests, rows, size = uses.get(whose, (0, 0, 0))
                uses[whose] = requests + 1, rows + one.rows, size + one.size
        assert {whose: use.counts() for whose, use in flying.uses.items()} == uses
        flying.land(flight)
        flying.land(before)
        assert (flying.names, flying.pending, flying.uses) == ({}, {}, {})
    assert 100 < whole < 300
