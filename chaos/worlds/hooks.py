"""Where a fault enters a world: one hook before and one after every operation.

What lives here: the hook, the ways to die in it, and rules that fail the n-th
operation of a kind. The simulated disk (`chaos.worlds.disk`) and the wrapper
over real files (`chaos.worlds.faulty`) both derive from `Hooked`, so one rule
serves both. What must never live here: what a fault does to data, which is the
world's own. Called by: worlds, and tests that aim a fault.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

Hook = Callable[[str, str], None]
"""Called with operation and path; raises an OSError or a `Crash`, or returns.

Operations: `exists`, `list`, `make_directory`, `sync_directory`, `open`, `create`,
`rename`, `remove`, `space_left`, `lock`, `read`, `write`, `allocate`, `truncate`,
`datasync`, `size`. Closing and unlocking have no hook: they cannot fail.
"""

TRACE_LINES_MAX = 200  # what a person reads after a failed seed; older lines are dropped


class Crash(BaseException):
    """The process dies here. Not an Exception: no handler of the product may stop it."""


class Torn(Crash):
    """The process dies in the midst of a write or allocation: a part of it is done."""


class Hooked:
    """A world whose every operation passes a hook.

    Once a hook has raised `Crash` the process is dead: every operation raises
    `Crash` (the clean-up a dying test unwinds through must not reach the files)
    until `revive`.

    Attributes:
        fault: called before each operation, which does not happen if it raises.
        fault_after: called after each operation that succeeded.
        operations: how many operations have begun.
        trace: the last of them, a line each.
    """

    def __init__(self, fault: Hook | None = None, fault_after: Hook | None = None) -> None:
        self.fault = fault
        self.fault_after = fault_after
        self.operations = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.dead = False

    def before(self, operation: str, path: str, detail: str = "") -> None:
        """Count and trace an operation, then let the hook fail it."""
        if self.dead:
            raise Crash("the process is dead")
        self.operations += 1
        self.trace.append(f"{self.operations} {operation} {path} {detail}".rstrip())
        self._pass(self.fault, operation, path)

    def after(self, operation: str, path: str) -> None:
        """Let the hook fail an operation that was done."""
        self._pass(self.fault_after, operation, path)

    def revive(self) -> None:
        """Let a new process begin."""
        self.dead = False

    def _pass(self, hook: Hook | None, operation: str, path: str) -> None:
        if hook is None:
            return
        try:
            hook(operation, path)
        except BaseException as error:
            self.dead = isinstance(error, Crash)
            self.trace.append(f"{self.operations} {operation} {path}: {error!r}")
            raise


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule: fail the n-th operation of a kind.

    Args:
        operation: its kind, see `Hook`; `any` counts all kinds.
        at: which one, from 1.
        error: an `errno` to raise as an OSError, or the way to die.
        onwards: fail all later ones of the kind too.
        path: only operations on paths that contain this count.
    """

    operation: str
    at: int
    error: int | type[Crash]
    onwards: bool = False
    path: str = ""


class Faults:
    """A hook made of rules: `disk.fault = Faults(Fault("write", 7, errno.ENOSPC))`."""

    def __init__(self, *rules: Fault) -> None:
        self._rules = rules
        self._counts = [0] * len(rules)

    def __call__(self, operation: str, path: str) -> None:
        """Count the operation for each rule, then raise for the first that is met."""
        met = [rule for rule in range(len(self._rules)) if self._count(rule, operation, path)]
        for rule in (self._rules[index] for index in met):
            if isinstance(rule.error, int):
                raise OSError(rule.error, f"{os.strerror(rule.error)} (injected)", path)
            raise rule.error(f"{operation} {path}")

    def _count(self, index: int, operation: str, path: str) -> bool:
        rule = self._rules[index]
        if rule.operation not in ("any", operation) or rule.path not in path:
            return False
        self._counts[index] += 1
        return self._counts[index] == rule.at or (rule.onwards and self._counts[index] > rule.at)
