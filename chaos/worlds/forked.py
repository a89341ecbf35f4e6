"""Processes of `raftbatch` that begin at once: forked from one that has imported it all.

    with Forks(folder) as forks:
        node = forks.start("n1", ["serve", "--node", "n1", "--config", "cluster.toml"])
        node.wait(30.0)

Most of what a node costs that only starts, and is looked at, is the import of the program. A fork
takes over that and nothing else: no thread, no loop and no descriptor of it are there yet.

What lives here: those processes, and the one that forks them. What must never live here: what they
are for. Called by: `chaos.disk_damage`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from chaos.mutation import install
from chaos.worlds.owners import VARIABLE, own_name
from raftbatch.closing import Closing

_ROOT = Path(__file__).parents[2]
_ALL_OF_SERVE = (
    "coordinator.config",
    "coordinator.rpc.http",
    "coordinator.server",
    "raftbatch.cli.main",
    "raftbatch.cli.serve",
    "raftbatch.realworld.process",
)
_LOOK_S = 0.02
_END_S = 30.0  # of one that was killed


class Forked:
    """One process.

    Args:
        pid: its number.
        log: to which all that it says is written.
        ended: where its status will stand, once it has ended.
    """

    def __init__(self, pid: int, log: Path, ended: Path) -> None:
        self.pid = pid
        self._log = log
        self._ended = ended

    @property
    def said(self) -> str:
        """All that it said so far."""
        return self._log.read_text("utf-8", "replace")

    @property
    def status(self) -> int | None:
        """Its exit status, less than 0 for a signal; None: it has not ended."""
        try:
            return int(self._ended.read_text("ascii"))
        except FileNotFoundError:
            return None

    def wait_for(self, text: str, limit_s: float) -> int | None:
        """Return once it has said this, or has ended; its exit status then.

        Raises:
            TimeoutError: neither, in that time.
        """
        end_s = time.monotonic() + limit_s
        while (status := self.status) is None and text not in self.said:
            if time.monotonic() > end_s:
                raise TimeoutError(f"it has not said {text} within {limit_s:g} s: {self.said}")
            time.sleep(_LOOK_S)
        return status

    def kill(self) -> None:
        """End it at once, and wait for its end. Harmless where it has ended."""
        end_s = time.monotonic() + _END_S
        while self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended: its status comes
            if time.monotonic() > end_s:
                raise TimeoutError(f"{self.pid} does not end")
            time.sleep(_LOOK_S)


class Forks(Closing):
    """See the module's docstring. Leaving it ends all of them.

    Args:
        folder: for what they say; made where it is missing.
        broken: a known bug of the product, see `chaos.broken`; empty: none.
    """

    def __init__(self, folder: Path, broken: str = "") -> None:
        self._folder = folder
        self._started: list[Forked] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._forker = subprocess.Popen(
            [sys.executable, "-m", "chaos.worlds.forked", broken],
            cwd=_ROOT,
            env={**os.environ, VARIABLE: own_name()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        """End all. Harmless when repeated."""
        for each in self._started:
            each.kill()
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.close()
        self._forker.wait(_END_S)
        self._forker.stdout.close()

    def start(self, arguments: Sequence[str]) -> Forked:
        """Begin a process with these arguments of `raftbatch`."""
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        number = len(self._started)
        log, ended = self._folder / f"{number}.log", self._folder / f"{number}.ended"
        log.touch()
        row = {"arguments": list(arguments), "log": str(log), "ended": str(ended)}
        self._forker.stdin.write(json.dumps(row) + "\n")
        self._forker.stdin.flush()
        self._started.append(Forked(int(self._forker.stdout.readline()), log, ended))
        return self._started[-1]


def main() -> None:
    """Fork a process for each line that comes, until no more can come; then end all."""
    _import(sys.argv[1])
    running: dict[int, str] = {}
    buffer = b""
    os.set_blocking(0, False)
    while True:
        _reap(running)
        try:
            found = os.read(0, 1 << 16)
        except BlockingIOError:
            time.sleep(_LOOK_S)
            continue
        if not found:
            break
        buffer += found
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            row = json.loads(line)
            pid = os.fork()
            if not pid:
                _be(row["arguments"], row["log"])
            running[pid] = row["ended"]
            os.write(1, f"{pid}\n".encode("ascii"))
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _import(broken: str) -> None:
    if broken:
        from chaos.broken import known

        for mutant in known(broken).mutants:
            install(mutant)
    for each in _ALL_OF_SERVE:
        import_module(each)


def _reap(running: dict[int, str]) -> None:
    """Write down the status of each that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        ended = Path(running.pop(pid))
        written = ended.with_suffix(".part")
        written.write_text(str(os.waitstatus_to_exitcode(status)), "ascii")
        written.rename(ended)  # whole at once


def _be(arguments: list[str], log: str) -> None:
    """Become the process; never return."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    from raftbatch.cli.main import main as command

    sys.argv = ["raftbatch", *arguments]
    status: object = 0
    try:
        command()
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:  # noqa: BLE001 - whatever it is, a process of its own would end by it
        traceback.print_exc()
        status = 1
    finally:
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    main()
