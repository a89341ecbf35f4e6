"""`raftbatch up` as a process in an empty folder: what it tells, and what it began.

What lives here: starting, reading, looking. What must never live here: what should come of it.
Called by: end-to-end tests of local clusters.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.executor_scene import is_gone
from tests.e2e.processes import LIMIT_S, RAFTBATCH
from tests.tidy.tree import ROOT

_LOOK_S = 0.02


class Up:
    """One such process. Leaving it kills it.

    Args:
        folder: where it is run.
        arguments: of it.

    Attributes:
        events: what it told so far.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*RAFTBATCH, "up", "--json", *arguments],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        # Else a test would wait for ever for a line that does not come.
        self._limit = threading.Timer(4 * LIMIT_S, self._process.kill)
        self._limit.start()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it, and with it what it began."""
        self._process.kill()
        _, complaints = self.ended()
        self._limit.cancel()
        if error is not None:
            error.add_note(f"it told {self.events}\nand complained:\n{complaints}")
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def wait(self, event: str, **fields: object) -> dict[str, Any]:
        """Return the first event of this name, and with these fields, once it is told."""
        for told in self._all():
            if told["event"] == event and fields.items() <= told.items():
                return told
        raise AssertionError(f"it ended without {event}")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, and all that are in its group: as a terminal does."""
        os.killpg(self.pid, number)

    def ended(self) -> tuple[int, str]:
        """Return its exit status and what it complained of, once it has ended."""
        for _ in self._all():
            pass
        assert self._process.stderr is not None
        complaints = self._process.stderr.read()
        return self._process.wait(LIMIT_S), complaints

    def _all(self) -> Iterator[dict[str, Any]]:
        yield from list(self.events)
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            self.events.append(json.loads(line))
            yield self.events[-1]


def environment() -> dict[str, str]:
    """Return the environment of a command that is run elsewhere, and is that of this tree."""
    return os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "TERM": "dumb"}


def descendants(pid: int) -> list[int]:
    """Return all processes below one, as far as they have not left it."""
    parents: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                stat = (each / "stat").read_text("ascii", "replace")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            parents[int(each.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [pid]
    for each_pid in found:  # which grows meanwhile
        found += [child for child, parent in parents.items() if parent == each_pid]
    return found[1:]


def until_gone(pids: Iterable[int]) -> None:
    """Wait until processes are gone."""
    never = threading.Event()
    for pid in pids:
        looks = int(LIMIT_S / _LOOK_S)
        while not is_gone(pid):
            looks -= 1
            assert looks, f"{pid} is there"
            never.wait(_LOOK_S)
