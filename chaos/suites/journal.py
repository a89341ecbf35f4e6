"""The journal under drawn steps and drawn faults: one seed, one identical run.

What lives here: `run_seed`, which draws the steps of a `JournalRun`. What must
never live here: a check. Called by: `chaos.runner`, the property tests.
"""

from __future__ import annotations

import errno
from random import Random

from chaos.suites.journal_run import ROOMY_BYTES, JournalRun
from chaos.worlds.disk import Crash
from raftbatch.ids import NodeId


def run_seed(seed: int, steps: int = 150) -> dict[str, int]:
    """Run one seed: the same steps and the same faults each time; return what was counted.

    Raises:
        Violation: a promise was broken.
        Fatal: the journal refused its own files.
    """
    rng = Random(seed)
    run = JournalRun(rng)
    busy = rng.choice((2, 6, 20))  # worker steps for each step of the owner
    faulty = rng.choice((0, 1, 3))
    run.open()
    for _ in range(steps):
        if run.journal is None:
            run.crash(power=rng.random() < 0.5)
            if faulty and rng.random() < 0.2:
                run.fail("any", rng.randint(1, 40), Crash)
            run.open()
            continue
        if rng.randrange(100) < 4:
            if rng.random() < 0.7:
                die_working(run, rng)
            run.crash(power=rng.random() < 0.6)
        elif rng.randrange(100) < 1:
            run.damage()
        elif rng.randrange(100) < faulty:
            draw_fault(run, rng)
        else:
            draw_step(run, rng)
            for _ in range(rng.randrange(busy)):
                if run.journal is not None:
                    run.step(rng.randrange(4))
        run.check()
    if run.journal is None:
        run.crash(power=False)
    run.settle()
    run.crash(power=True)
    run.settle()
    return {
        "events": run.disk.operations,
        "acks": run.acks,
        "reads": run.reads,
        "crashes": run.crashes,
        "damages": run.damages,
    }


def die_working(run: JournalRun, rng: Random) -> None:
    """Let the process die in the midst of what the disk is asked to do for a group."""
    for _ in range(rng.randrange(6)):
        run.append(0, rng.randbytes(rng.choice((10, 300, 900))))
    run.flush()
    run.fail("any", rng.randint(1, 6), Crash)
    for _ in range(6):
        if run.journal is not None:
            run.step(0)


def draw_step(run: JournalRun, rng: Random) -> None:
    """Let the owner do one thing, and mostly end its turn."""
    term_step = rng.choice((0, 0, 0, 1))
    match rng.randrange(20):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
            size = rng.choice((0, 1, 7, 40, 100, 480, 500, 2000, 3500, 6000))
            run.append(term_step, rng.randbytes(size))
        case 9 | 10 | 11:
            run.vote(term_step, rng.choice((None, NodeId("n1"), NodeId("n2"))))
        case 12 | 13:
            run.truncate(rng.choice((0, 1, 2, 5, 30)))
        case 14:
            run.reset(rng.choice((0, 1, 5)))
        case 15 | 16:
            run.compact(rng.choice((0, 1, 5)))
        case _:
            run.read(rng.randrange(1000), rng.choice((1, 200, 5000)))
    if rng.random() < 0.8:
        run.flush()


def draw_fault(run: JournalRun, rng: Random) -> None:
    """Let the world do one thing."""
    match rng.randrange(4):
        case 0:
            run.fail("any", rng.randint(1, 12), Crash)
        case 1:
            operation = rng.choice(("datasync", "sync_directory", "write"))
            run.fail(operation, rng.randint(1, 3), rng.choice((errno.EIO, errno.EIO, errno.ENOSPC)))
        case 2:
            operation = rng.choice(("write", "allocate", "create", "rename"))
            run.fail(operation, rng.randint(1, 3), rng.choice((errno.ENOSPC, errno.EMFILE)))
        case _:
            run.resize(rng.choice((0, 3000, 12_000, 35_000, ROOMY_BYTES)))
