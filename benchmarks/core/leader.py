"""What a decision costs, however much waits.

What lives here: a state with many windows and executors, and the timing of
decisions in it. Called by: `bench_core`.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.core.replica import BATCH_ROWS
from coordinator.core.apply import apply
from coordinator.core.decide import Decider
from coordinator.core.outlook import Outlook
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.settings import Model, Policy

MODELS = 10


def waiting(requests: int, windows: int, executors: int) -> State:
    """Return a state in which so much waits, and every executor is idle."""
    state = State()
    names = [(f"m{n}", "1") for n in range(MODELS)]
    delay_us = 60_000_000
    records: list[r.Record] = [r.Lead("n1", 0, 1), r.PutPolicy(Policy())]
    records += [r.PutModel(Model(*name, max_queue_delay_microseconds=delay_us)) for name in names]
    apply(state, 1, 1, r.Entry(1, 1000, tuple(records)))
    joins = tuple([r.Join(f"gpu-{n:03d}", 0, 2, tuple(names), b"") for n in range(executors)])
    apply(state, 2, 1, r.Entry(1, 1000, joins))
    each = requests // windows
    for number in range(windows):
        n = each
        first = state.next_request
        record = r.Admit(
            first,
            ((*names[number % MODELS], f"x:FP32[{number}]"),),
            ("tenant",),
            (0,) * n,
            (0,) * n,
            tuple([f"request-{first + i:012d}" for i in range(n)]),
            (bytes(16),) * n,
            (1,) * n,
            (1,) * n,
            (0,) * n,
            (bytes(64),) * n,
            (b"",) * n,
            ("",) * n,
        )
        apply(state, state.index + 1, 1, r.Entry(1, 1000, (record,)))
    return state


def measure(requests: int, windows: int, executors: int) -> tuple[float, int]:
    """Decide until every slot is taken; return microseconds for one batch, and batches.

    Each entry's reports free some slots, as in a steady flow.
    """
    state = waiting(requests, windows, executors)
    outlook = Outlook(state)
    for _ in outlook.build():
        pass
    decider = Decider(outlook)
    costs: list[float] = []
    batches = 0
    at_ms = 70_000
    while batches < requests // BATCH_ROWS // 2:
        at_ms += 1
        flight = outlook.begin(at_ms)
        running = [one for one in state.batches.values() if one.executor][:64]
        for one in running:
            outlook.add(_report(one.number, state), flight)
        before = time.process_time_ns()
        decider.decide(flight)
        took = time.process_time_ns() - before
        made = sum([isinstance(record, r.Assign) for record in flight.records])
        if made:
            costs.append(took / made / 1000)
        batches += made
        entry = r.Entry(1, at_ms, tuple(flight.records))
        outlook.commit(flight)
        outlook.applied(apply(state, state.index + 1, 1, entry))
        assert not outlook.is_stale
    return round(median(costs), 1), batches


def _report(number: int, state: State) -> r.Complete:
    batch = state.batches[number]
    n = len(batch.members)
    return r.Complete(
        number,
        batch.assigned,
        batch.fence,
        batch.executor,
        batch.incarnation,
        True,
        *(0, 0, 1_000_000, 0),
        (n, 64),
        b"",
        batch.members,
        (0,) * n,
        ("",) * n,
        ("",) * n,
        (b"",) * n,
    )
