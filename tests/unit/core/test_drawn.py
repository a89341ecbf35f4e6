"""Whatever records come, from anyone, in any order: the invariants hold, replicas agree."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.core.admission import _Taking
from coordinator.core.apply import apply
from coordinator.core.effects import Verdict
from coordinator.core.invariants import check
from coordinator.core.snapshot import Capture, restore
from coordinator.core.state import State
from raftbatch.codec import decode_entry
from tests.unit.core.drawing import Drawing

ROOT = Path(__file__).parents[3]
SEEDS = range(8)
STEPS = 300


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_after_any_records(seed: int) -> None:
    drawing = Drawing(seed)
    for _ in range(STEPS):
        drawing.step()
        check(drawing.state)
    assert drawing.state.counters.admitted > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_agree_wherever_one_was_restored(seed: int) -> None:
    """And wherever one was captured, while it went on."""
    drawing = Drawing(seed)
    for _ in range(STEPS):
        drawing.step()
    draw = random.Random(seed)
    replica = State()
    captures: list[tuple[Capture, bytes]] = []
    for index, term, data in drawing.entries:
        apply(replica, index, term, decode_entry(data))
        match draw.randrange(40):
            case 0:
                capture = Capture(replica)
                captures.append((capture, b"".join(capture.chunks())))
            case 1 if captures:
                capture, content = captures.pop(0)
                assert b"".join(capture.chunks()) == content
                capture.release()
            case 2:
                capture = Capture(replica)
                replica = restore(capture.chunks())
                capture.release()
                check(replica)
    assert replica.digest == drawing.state.digest
    assert Capture(replica).digest() == Capture(drawing.state).digest()
    check(replica)


def test_drawn_records_meet_every_answer() -> None:
    """Else the fuzz would look at little: each kind was applied, and refused."""
    seen: dict[str, set[int]] = {}
    for seed in SEEDS:
        drawing = Drawing(seed)
        for _ in range(STEPS):
            drawing.step()
        for name, verdicts in drawing.seen.items():
            seen.setdefault(name, set()).update(verdicts)
    assert not [name for name, verdicts in seen.items() if 0 not in verdicts]
    assert len(seen) == 22
    assert set().union(*seen.values()) == set(map(int, Verdict))


@pytest.mark.parametrize("seed", SEEDS)
def test_admitting_at_once_and_one_by_one_is_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = Drawing(seed)
    for _ in range(STEPS):
        drawing.step()
    monkeypatch.setattr(_Taking, "is_roomy", lambda self: False)
    slow = State()
    for index, term, data in drawing.entries:
        apply(slow, index, term, decode_entry(data))
    assert slow.digest == drawing.state.digest
    assert Capture(slow).digest() == Capture(drawing.state).digest()


def test_nothing_depends_on_how_strings_are_hashed() -> None:
    program = (
        "from tests.unit.core.drawing import Drawing\n"
        "for seed in range(3):\n"
        "    drawing = Drawing(seed)\n"
        "    for _ in range(200):\n"
        "        drawing.step()\n"
        "    print(drawing.state.digest.hex())\n"
    )
    found = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout.split())
    assert len(found[0]) == 3
    assert found[0] == found[1]
