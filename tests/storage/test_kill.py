"""A node killed at exactly its n-th sync, for each n: it opens again with all it acknowledged.

strace kills a real process, over real files, as it enters the system call. What
it had acknowledged it had written to a file of its own first.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.storage.processes import LIMIT_S, aftermath, command, run_to_end, start
from tests.storage.story import scratch
from tests.tidy.tree import expect_none

pytestmark = [pytest.mark.root, pytest.mark.slow]

KILLS_MAX = 60
SEED = "kill 1"  # decides where the syncs are; with it there are some of every kind
TURNS = 45
CALLS = ("fdatasync", "fsync")  # contents, and the names in directories


def _can_trace() -> bool:
    """Return whether strace is here and may trace."""
    if shutil.which("strace") is None:
        return False
    traced = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return traced.returncode == 0


needs_strace = pytest.mark.skipif(not _can_trace(), reason="strace is missing, or may not trace")


def _traced(directory: Path, output: Path, *options: str, mutant: str = "") -> list[str]:
    """Return the command that traces the syncs of a process."""
    # Not --seccomp-bpf, which is faster: with it strace 6.1 injects nothing.
    strace = ["strace", "--follow-forks", "-qq", "--decode-fds=path"]
    strace += ["-o", str(output), "-e", "trace=fdatasync,fsync", *options]
    mutants = ["--mutant", mutant] if mutant else []
    return strace + command(directory, "--seed", SEED, "--turns", str(TURNS), *mutants)


def _syncs(mutant: str = "") -> dict[str, list[str]]:
    """Return what each sync of a life is of, by system call, in order."""
    with scratch() as path:
        status, said = run_to_end(_traced(path / "data", path / "trace", mutant=mutant))
        assert status == 0, said
        trace = (path / "trace").read_text(encoding="utf-8")
    # 4711 fdatasync(5</some/segment-00000000000000000001.tmp>) = 0
    found = re.findall(r" (fdatasync|fsync)\(\d+<.*?([^/>]*)>\)", trace)
    return {call: [name for one, name in found if one == call] for call in CALLS}


@dataclass
class _Kill:
    """A process that is killed at one sync, and what it leaves."""

    call: str
    number: int
    name: str
    path: Path
    mutant: str

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        inject = f"inject={self.call}:signal=KILL:when={self.number}"
        return _traced(self.path / "data", Path(os.devnull), "-e", inject, mutant=self.mutant)

    def start(self) -> subprocess.Popen[str]:
        """Start it."""
        return start(self.command, self.path / "lines")

    def complaint(self, process: subprocess.Popen[str]) -> str | None:
        """Let it end; return why what it left is wrong."""
        _, said = process.communicate(timeout=LIMIT_S)
        if process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
            complaint = aftermath(self.path / "data", self.path / "lines", SEED)
        else:
            complaint = f"it ended with {process.returncode} instead: {said}"
        place = f"{self.call} {self.number}, of {self.name}"
        return complaint and f"{place}: {complaint}; to repeat: {shlex.join(self.command)}"


def _kills(call: str, mutant: str = "") -> Iterator[str]:
    """Kill at each sync of a kind; yield the complaints.

    Two at a time, but without threads: a process being started has our locks
    open for a moment, and `aftermath` takes and gives up some.
    """
    names = list(enumerate(_syncs(mutant)[call][:KILLS_MAX], 1))
    for pair in (names[at : at + 2] for at in range(0, len(names), 2)):
        with ExitStack() as stack:
            kills = [
                _Kill(call, number, name, stack.enter_context(scratch()), mutant)
                for number, name in pair
            ]
            processes = [stack.enter_context(kill.start()) for kill in kills]
            for process in processes:
                process.wait(LIMIT_S)
            for kill, process in zip(kills, processes, strict=True):
                if complaint := kill.complaint(process):
                    yield complaint


@needs_strace
def test_life_has_syncs_of_every_kind_among_those_that_kill() -> None:
    syncs = _syncs()
    contents = {
        name.removesuffix(".tmp").partition("-")[0] + ".tmp" * name.endswith(".tmp")
        for name in syncs["fdatasync"][:KILLS_MAX]
    }
    assert contents == {"mark.tmp", "segment.tmp", "segment", "snapshot.tmp"}
    assert {"journal", "snapshots", "data"} <= set(syncs["fsync"][:KILLS_MAX])
    # How many there are depends on how many changes share a group: enough that they are kills.
    assert len(syncs["fdatasync"]) >= KILLS_MAX * 2 // 3


@needs_strace
@pytest.mark.parametrize("call", CALLS)
def test_kill_at_any_sync_loses_nothing_acknowledged(call: str) -> None:
    expect_none(list(_kills(call)))


@needs_strace
def test_kill_shows_a_node_that_acknowledges_before_it_has_written() -> None:
    assert next(_kills("fdatasync", "early"), None)
