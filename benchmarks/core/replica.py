"""What one request costs a replica, and a leader that encodes it.

What lives here: the entries of a steady flow in batches, and their timing. Called
by: `bench_core`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import median

from coordinator.core.apply import apply
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.kinds import Key, Release
from raftbatch.settings import Model, Policy

KEY: Key = ("m", "1", "x:FP32[64]")
BATCH_ROWS = 32


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of CPU for one request; medians over batches, and the 90th percentile.

    Attributes:
        decode: of the three entries that a request is in.
        apply: of the same.
        encode: of the same.
        each: decode and apply of Admit, Seal with Assign, and Complete, by name.
        p90: of decode and apply together.
    """

    decode: float
    apply: float
    encode: float
    each: dict[str, float]
    p90: float


def admit(first: int, count: int, payload_bytes: int, draw: Random) -> r.Admit:
    """Return an Admit of requests that are all different."""
    n = count
    return r.Admit(
        first,
        (KEY,),
        ("tenant",),
        (0,) * n,
        (0,) * n,
        tuple(f"request-{first + i:012d}" for i in range(n)),
        tuple(draw.randbytes(16) for _ in range(n)),
        (1,) * n,
        (1,) * n,
        (30_000,) * n,
        tuple(draw.randbytes(payload_bytes) for _ in range(n)),
        (b"",) * n,
        ("",) * n,
    )


def begun() -> State:
    """Return a state with a model and an executor."""
    state = State()
    most = 1 << 40
    policy = Policy(most, most, most, most, most, most, outcome_bytes_max=most)
    model = Model("m", "1", requests_waiting_max=most, bytes_waiting_max=most)
    records = (r.Lead("n1", 0, 1), r.PutPolicy(policy), r.PutModel(model))
    apply(state, 1, 1, r.Entry(1, 1000, records))
    apply(state, 2, 1, r.Entry(1, 1000, (r.Join("gpu-1", 0, 2, (("m", "1"),), b""),)))
    return state


def entries(batches: int, payload_bytes: int) -> list[tuple[str, r.Entry]]:
    """Return what a steady flow makes of so many batches, in order, from index 3 on."""
    draw = Random(1)
    found: list[tuple[str, r.Entry]] = []
    n = BATCH_ROWS
    for number in range(1, batches + 1):
        first = 1 + (number - 1) * n
        at_ms = 1000 + number
        numbers = tuple(range(first, first + n))
        seal = r.Seal(number, KEY, Release.SIZE, numbers)
        assign = r.Assign(number, 1, "gpu-1", 2)
        complete = r.Complete(
            number,
            1,
            2 + len(found) + 2,  # the index of the entry with the Assign
            "gpu-1",
            2,
            True,
            *(1000, 2000, 3_000_000, 4000),
            (n, 64),
            bytes(32),
            numbers,
            (0,) * n,
            ("",) * n,
            ("",) * n,
            tuple(draw.randbytes(payload_bytes) for _ in range(n)),
        )
        found.append(("Admit", r.Entry(1, at_ms, (admit(first, n, payload_bytes, draw),))))
        found.append(("Seal, Assign", r.Entry(1, at_ms, (seal, assign))))
        found.append(("Complete", r.Entry(1, at_ms, (complete,))))
    return found


def measure(batches: int, payload_bytes: int) -> Costs:
    """Apply a steady flow, and return what it cost."""
    flow = entries(batches, payload_bytes)
    encoding = [_timed(lambda entry=entry: encode_entry(entry)) for _, entry in flow]  # type: ignore[misc]
    data = [encode_entry(entry) for _, entry in flow]
    state = begun()
    decoding: list[int] = []
    applying: list[int] = []
    for index, content in enumerate(data, 3):
        before = time.process_time_ns()
        entry = decode_entry(content)
        between = time.process_time_ns()
        apply(state, index, 1, entry)
        decoding.append(between - before)
        applying.append(time.process_time_ns() - between)
    assert state.counters.succeeded == batches * BATCH_ROWS
    names = [name for name, _ in flow[:3]]
    wholes = [sum(decoding[at : at + 3] + applying[at : at + 3]) for at in range(0, len(flow), 3)]
    return Costs(
        _median_us(decoding),
        _median_us(applying),
        _median_us(encoding),
        {
            name: _us(median(map(sum, zip(decoding[at::3], applying[at::3], strict=True))))
            for at, name in enumerate(names)
        },
        _us(sorted(wholes)[len(wholes) * 9 // 10]),
    )


def _timed(job: Callable[[], object]) -> int:
    before = time.process_time_ns()
    job()
    return time.process_time_ns() - before


def _median_us(times: list[int]) -> float:
    """Return the median over batches of what three entries took, for one request."""
    return _us(median([sum(times[at : at + 3]) for at in range(0, len(times), 3)]))


def _us(batch_ns: float) -> float:
    return round(batch_ns / 1000 / BATCH_ROWS, 2)
