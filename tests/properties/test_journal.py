"""The journal keeps what it acknowledged, whatever the disk does: G1, G8, G15.

Two drivers over the same steps and the same model (`chaos.suites.journal`):
hypothesis, which shrinks what it finds, and plain seeds, which are many.
"""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chaos.suites.journal import run_seed
from chaos.suites.journal_run import ROOMY_BYTES, JournalRun
from chaos.worlds.disk import Crash
from raftbatch.ids import NodeId
from tests.properties.seeds import RUN

SMALL = st.integers(0, 6)
FAULTS = st.sampled_from([Crash, errno.EIO, errno.ENOSPC, errno.EMFILE])
OPERATIONS = ("any", "write", "datasync", "sync_directory", "create", "allocate", "rename")


def lives(machine: JournalMachine) -> bool:
    """Return whether there is a process to take steps."""
    return machine.run.journal is not None


class JournalMachine(RuleBasedStateMachine):
    """Takes any steps in any order; the run checks itself after each."""

    def __init__(self) -> None:
        super().__init__()
        self.run = JournalRun(Random(0))
        self.run.open()

    @precondition(lives)
    @rule(term_step=st.integers(0, 1), size=st.sampled_from([0, 1, 40, 480, 2000, 6000]))
    def append(self, term_step: int, size: int) -> None:
        """Append."""
        self.run.append(term_step, bytes([size % 251]) * size)

    @precondition(lives)
    @rule(term_step=st.integers(0, 1), vote=st.sampled_from([None, NodeId("n1"), NodeId("n2")]))
    def vote(self, term_step: int, vote: NodeId | None) -> None:
        """Change the hard state."""
        self.run.vote(term_step, vote)

    @precondition(lives)
    @rule(distance=SMALL)
    def truncate(self, distance: int) -> None:
        """Take entries back."""
        self.run.truncate(distance)

    @precondition(lives)
    @rule(distance=SMALL)
    def reset(self, distance: int) -> None:
        """Install a snapshot."""
        self.run.reset(distance)

    @precondition(lives)
    @rule(distance=SMALL)
    def compact(self, distance: int) -> None:
        """Let go of what a snapshot replaces."""
        self.run.compact(distance)

    @precondition(lives)
    @rule(index=st.integers(0, 50), bytes_max=st.sampled_from([1, 300, 5000]))
    def read(self, index: int, bytes_max: int) -> None:
        """Read back."""
        self.run.read(index, bytes_max)

    @precondition(lives)
    @rule()
    def flush(self) -> None:
        """End the turn."""
        self.run.flush()

    @precondition(lives)
    @rule(choice=SMALL)
    def step(self, choice: int) -> None:
        """Let a worker run a job, or tell of one."""
        self.run.step(choice)

    @rule(operation=st.sampled_from(OPERATIONS), number=st.integers(1, 8), fault=FAULTS)
    def fail(self, operation: str, number: int, fault: int | type[Crash]) -> None:
        """Arm a fault."""
        self.run.fail(operation, number, fault)

    @rule(bytes_left=st.sampled_from([0, 3000, 12_000, 35_000, ROOMY_BYTES]))
    def resize(self, bytes_left: int) -> None:
        """Fill the disk, or clear it."""
        self.run.resize(bytes_left)

    @rule(power=st.booleans())
    def crash(self, power: bool) -> None:
        """Die, and start again."""
        self.run.crash(power)
        self.run.resize(ROOMY_BYTES)
        self.run.open()

    @precondition(lives)
    @rule()
    def settle(self) -> None:
        """Heal: everything becomes durable and is read back."""
        self.run.settle()

    @invariant()
    def holds(self) -> None:
        """Hold journal and model against each other."""
        self.run.check()


JournalMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_journal_machine = JournalMachine.TestCase


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_journal_seeds(first: int) -> None:
    """Four hundred drawn runs; a failure names its seed."""
    run_seeds(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(400, RUN["journal"], 50))
def test_journal_more_seeds(first: int) -> None:
    """And sixteen hundred more."""
    run_seeds(first)


def run_seeds(first: int) -> None:
    """Run fifty seeds."""
    for seed in range(first, first + 50):
        try:
            run_seed(seed)
        except BaseException as error:
            error.add_note(f"python -m chaos sim --suite journal --seeds {seed}")
            raise


def test_journal_seed_is_one_identical_run() -> None:
    """The same operations, whatever ran before."""
    assert run_seed(7) == run_seed(7)
