"""Three times what a cluster can do, for a minute: it goes on doing it, and refuses the rest.

Seen at BentoML#3646. Whole nodes in virtual time, in which an executor does as much as it is said
to: so goodput is exact. On real machines `benchmarks/bench_overload.py` measures it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.nemesis import Mix
from chaos.suites.scheduler import CALM_S, SchedulerRun
from chaos.suites.scheduler_options import Options, draw
from chaos.worlds.calls import CallOptions
from raftbatch.settings import Model, Policy

pytestmark = pytest.mark.slow

MINUTE_S = 60.0
RUN_S = 0.2  # of each request, one after the other
CAPACITY = MINUTE_S / RUN_S
TIMES = 3
GOODPUT_MIN = 0.8
WAITING_MAX = 10


def options() -> Options:
    """Return what nothing befalls, and too much is asked of."""
    drawn = draw(1)
    return replace(
        drawn,
        nodes=3,
        mix=Mix({}, rate=1e-9),
        workloads=("submit", "overload"),
        policy=Policy(result_bytes_max=64, requests_waiting_max=WAITING_MAX),
        models=(Model("m0", "1", max_queue_delay_microseconds=0),),
        calls=CallOptions(timeout_s=(200.0, 200.0)),
        pending_items=1000,
        work=replace(
            drawn.work,
            bursts_per_s=TIMES / RUN_S,
            burst=1,
            requests_max=1 << 30,
            tenants=("t0",),
            sizes=(40,),
            timeouts_ms=(0,),
            poison=0.0,
            bad=0.0,
            cancels=0.0,
            wrong=0.0,
        ),
        fleet=replace(
            drawn.fleet,
            count=1,
            instances=1,
            prefetch=1,
            run_s=(RUN_S, RUN_S),
            faults={},
            drains_per_s=0.0,
        ),
        changes_per_s=0.0,
        transfers_per_s=0.0,
        restarts_per_s=0.0,
        safety_s=MINUTE_S,
    )


def test_overload_leaves_most_of_the_capacity_and_refuses_the_rest() -> None:
    run = SchedulerRun(1, None, options())
    done: list[int] = []

    def look() -> None:
        done.append(max(each.replica.state.counters.completed for each in run._nodes.values()))

    run._loop.after(CALM_S, look)
    run._loop.after(CALM_S + MINUTE_S - 0.01, look)
    counts = run.run()
    assert done[1] - done[0] >= GOODPUT_MIN * CAPACITY
    assert counts["asked"] > (TIMES - 1) * CAPACITY
    assert counts["loaded"] > CAPACITY, "refused at once, with a word for it"
