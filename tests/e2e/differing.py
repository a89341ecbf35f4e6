"""`raftbatch`, but its replica does not do quite what others do: its Admit says another thing.

    python -m tests.e2e.differing serve --node n2 ...

Nobody is told anything false by that: what differs is only when to come back, of a
request that nobody refused. Called by: `test_differing`, as a process.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.core import apply
from coordinator.core.admission import admit
from coordinator.core.effects import Verdicts
from coordinator.core.state import State
from raftbatch.cli.main import main
from raftbatch.records import Admit


def otherwise(state: State, record: Admit) -> Verdicts:
    """Admit, and say something else."""
    return replace(admit(state, record), retry_after_ms=7)


if __name__ == "__main__":
    apply.admit = otherwise  # type: ignore[attr-defined]
    main()
