"""The slots of an executor: what it holds, and whether it is to be trusted.

A slot is credit. One that an assignment took returns with the last part of the
report, or when the executor confirms that it stopped; a lapse alone does not
return it, since the device may still be busy. What lives here: taking and
returning slots, and the row of failures that suspends. Called by: `batches`,
`reports`, `executors`. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.effects import Change, Effect, ExecutorChanged
from coordinator.core.state import State
from coordinator.core.values import Executor, Held


def take_slot(state: State, executor: Executor, batch: int, fence: int) -> None:
    """Let a new assignment take a slot."""
    held = (*executor.held, Held(batch, fence, False))
    state.executors[executor.executor] = replace(executor, held=held)


def release_slot(
    state: State, executor: Executor, batch: int, fence: int, stopped: bool = True
) -> None:
    """Return the slot of an assignment, or, where it has not stopped, note that it lapsed."""
    held = tuple(
        [
            each if (each.batch, each.fence) != (batch, fence) else each._replace(is_lapsed=True)
            for each in executor.held
            if not stopped or (each.batch, each.fence) != (batch, fence)
        ]
    )
    state.executors[executor.executor] = replace(executor, held=held)


def note_failure(state: State, name: str, root: int, effects: list[Effect]) -> None:
    """Count a batch that failed on an executor; several in a row suspend it.

    Halves of one batch are one: a request that breaks each of them says nothing
    about the device.
    """
    executor = state.executors[name]
    if root in executor.failures:
        return
    failures = (*executor.failures, root)
    suspended = executor.is_suspended or len(failures) >= state.policy.executor_failures_max
    if suspended and not executor.is_suspended:
        effects.append(ExecutorChanged(name, executor.incarnation, Change.SUSPENDED))
    # No more are remembered than it takes.
    state.executors[name] = replace(
        executor,
        failures=failures[-state.policy.executor_failures_max :],
        is_suspended=suspended,
    )


def note_success(state: State, name: str) -> None:
    """A batch ran well on an executor: the row of failures is over."""
    executor = state.executors[name]
    if executor.failures:
        state.executors[name] = replace(executor, failures=())
