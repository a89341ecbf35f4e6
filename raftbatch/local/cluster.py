"""A cluster on this machine, by names: its directory, its processes, and how it stands with it.

What lives here: the one object that others use. What must never live here: the choice of a
configuration (`directory`), restarting on its own (`supervisor`). Called by: `raftbatch up`, the
demo, tests and chaos. Its methods block; any thread may call them, for different processes at one
time.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Self

from raftbatch.errors import CannotStart
from raftbatch.local import configuration, ports
from raftbatch.local.directory import ClusterDirectory
from raftbatch.local.looking import Statuses, agreed, statuses, unready
from raftbatch.local.processes import LocalProcess
from raftbatch.realworld import RealClock

EXECUTORS = 2

_LOOK_S = 0.1  # between two looks at the nodes
_JOIN_S = 120  # executors are begun with the nodes, which first have to found a cluster
_DRAIN_S = 5
_STOP_S = 15.0  # a node is gone `stop_ms_max` after the signal, 10 s, whatever hangs
_JOINED = '"event": "executor.joined"'


class LocalCluster:
    """See the package's docstring. Whatever it began ends with it, or with its process.

    Args:
        directory: where its configuration, data and logs are; made where it is missing. If there
            is a cluster in it, that one goes on, at its addresses.
        config: a configuration, of which a copy is made there, with addresses of this machine and
            data in the directory; it may leave out `[nodes]` and `[cluster]`. None: what the
            directory has, or the built-in one, which runs the model `echo`.
        nodes: how many, where no configuration names them; None: as many as are there, or 3.
        executors: how many; None: 2, or none where no model says what executors run.
        keeps_ports: whether a new cluster gets the addresses that its configuration names, where
            nobody uses one of them; else, and without this, free ports.
        check: told the path of the configuration before anything is started; raises
            InvalidRequest where it is wrong. None: processes find out as they start.

    Attributes:
        directory: of it.
        config: its configuration file.
        nodes: names of the nodes.
        executors: names of the executors.
        has_other_ports: whether the addresses were to be kept, and were in use.

    Raises:
        InvalidRequest: the configuration is wrong, or not that of the cluster in the directory.
        CannotStart: another process uses the directory, or something else there.
    """

    def __init__(
        self,
        directory: Path,
        *,
        config: Path | None = None,
        nodes: int | None = None,
        executors: int | None = None,
        keeps_ports: bool = False,
        check: Callable[[str], object] | None = None,
    ) -> None:
        self._place = place = ClusterDirectory(directory, config, nodes, keeps_ports, check)
        self._processes: dict[str, LocalProcess] = {}
        self._never = Event()
        self._gate = Lock()
        self._is_closed = False
        self.directory = directory
        self.config = place.config
        self.has_other_ports = place.has_other_ports
        self.nodes: tuple[str, ...] = tuple(map(str, place.file.nodes))
        default = EXECUTORS if configuration.has_executors(place.values) else 0
        count = default if executors is None else executors
        self.executors = configuration.executor_names(count, self.nodes)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop what runs; at once, where an error has come up."""
        self.close(0.0 if error is not None else _STOP_S)

    # What there is.

    @property
    def addresses(self) -> tuple[str, ...]:
        """Client addresses of the nodes, in the order of their names."""
        return tuple(each.client for each in self._place.file.nodes.values())

    def address(self, node: str) -> str:
        """Return the client address of a node."""
        return self._place.file.node(node).client

    def data_dir(self, node: str) -> Path:
        """Return the data directory of a node."""
        return self._place.data_dir(node)

    def log_file(self, name: str) -> Path:
        """Return the log file of a node or an executor."""
        return self._place.log_file(name)

    def pid(self, name: str) -> int:
        """Return the number of a process that was begun."""
        return self._processes[name].pid

    def is_alive(self, name: str) -> bool:
        """Return whether a node or an executor was begun, and has not ended."""
        return name in self._processes and self._processes[name].is_alive

    def ending(self, name: str) -> str:
        """Return how a process ended, and what it said last, if it could; empty: it has not."""
        process = self._processes[name]
        how = process.ending()
        if not how or process.was_ended:
            return how and f"{how}; its log is {process.log}"
        why = process.why().replace(str(self.config), self._place.source)
        return f"{how}: {why or 'it said nothing'}"

    def examples(self) -> list[str]:
        """Return a request for each model, as `raftbatch infer` takes it."""
        return configuration.examples(self._place.values)

    # What can be done.

    def start(self) -> None:
        """Start all nodes and executors that do not run. It does not wait for them.

        Raises:
            CannotStart: a port is in use, or a process cannot be begun.
        """
        idle = [name for name in self.nodes if not self.is_alive(name)]
        where = configuration.addresses_of(self._place.values, str(self.config))
        in_use = ports.taken(each for node in idle for each in where[node].values())
        if in_use:
            raise CannotStart(
                f"{', '.join(in_use)}: somebody listens there already; stop that process, or name "
                f"another directory (the addresses of this one stand in {self.config})"
            )
        with self._opening():
            self._place.note_founding()
            for name in (*self.nodes, *self.executors):
                if not self.is_alive(name):
                    self._begin(name)

    def restart(self, name: str) -> None:
        """Start a node or an executor, after its end. It does not wait for it.

        Raises:
            CannotStart: it has not ended, or cannot be begun.
        """
        if self.is_alive(name):
            raise CannotStart(f"{name} runs: kill or terminate it first")
        with self._opening():
            self._begin(name)

    def kill(self, name: str) -> None:
        """End a process with SIGKILL, and wait until it is gone."""
        self._processes[name].kill()

    def terminate(self, name: str, timeout_s: float = _STOP_S) -> int:
        """Stop a process with SIGTERM; return its exit status.

        Raises:
            TimeoutError: it has not ended in that time.
        """
        process = self._processes[name]
        process.send(signal.SIGTERM)
        status = process.wait(timeout_s)
        if status is None:
            raise TimeoutError(f"{name} has not ended {timeout_s:g} s after SIGTERM")
        process.release()
        return status

    def close(self, timeout_s: float = _STOP_S) -> None:
        """Stop all that runs, and kill what runs after that time. Harmless when called twice.

        Executors first: they leave through the nodes. From now on nothing begins, whichever
        thread is about to.
        """
        with self._gate:
            self._is_closed = True
        clock = RealClock()
        end_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        try:
            for names in (self.executors, self.nodes) if timeout_s > 0 else ():
                running = [self._processes[name] for name in names if self.is_alive(name)]
                for process in running:
                    process.send(signal.SIGTERM)
                # What executors leave of the time is enough for nodes.
                share = 0.6 if names is self.executors else 1.0
                for process in running:
                    left_s = (end_ns - clock.monotonic_ns()) / 1e9
                    process.wait(max(0.0, left_s - timeout_s * (1 - share)))
        finally:
            for process in self._processes.values():
                process.kill()
            self._place.release()

    # How it stands with it.

    def statuses(self, timeout_s: float = 2.0) -> Statuses:
        """Return what those nodes say that answer in that time."""
        return statuses(self._place.file, timeout_s)

    def missing(self) -> str:
        """Return what is still waited for until all are there; empty: nothing.

        Raises:
            CannotStart: a process has ended; the message has its last lines.
        """
        for name in (*self.nodes, *self.executors):
            if name not in self._processes:
                raise CannotStart(f"{name} was not begun: start() comes first")
            if ending := self.ending(name):
                raise CannotStart(f"{name} does not run: {ending}")
        for name in self.executors:
            if not self._processes[name].has_said(_JOINED):
                # The nodes may still know an earlier life of it.
                return unready(self.statuses(), self.nodes, ()) or f"{name} has not joined yet"
        return unready(self.statuses(), self.nodes, self.executors)

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until all nodes serve, one leads, and all executors have joined.

        Raises:
            CannotStart: a process has ended, or it takes longer; the message says what is missing.
        """
        clock = RealClock()
        end_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        while missing := self.missing():
            if clock.monotonic_ns() > end_ns:
                raise CannotStart(f"not ready after {timeout_s:g} s: {missing}")
            self._never.wait(_LOOK_S)

    def leader(self, timeout_s: float = 30.0) -> str:
        """Return who leads, once a majority says so.

        Raises:
            CannotStart: nobody does in that time.
        """
        clock = RealClock()
        end_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        while not (found := self.look_for_leader()):
            if clock.monotonic_ns() > end_ns:
                raise CannotStart(f"no node leads after {timeout_s:g} s")
            self._never.wait(_LOOK_S)
        return found

    def look_for_leader(self) -> str:
        """Return who leads now, as a majority says; empty: nobody."""
        return agreed(self.statuses())

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Keep it from being closed meanwhile: whoever closes may remove the directory next."""
        with self._gate:
            if self._is_closed:
                raise CannotStart(f"the cluster in {self.directory} is closed")
            yield

    def _begin(self, name: str) -> None:
        if name in self._processes:
            self._processes[name].release()
        config = str(self.config)
        if name in self.executors:
            patience = ["--join", str(_JOIN_S), "--drain", str(_DRAIN_S)]
            arguments = ["executor", "--id", name, "--config", config, *patience]
        else:
            # On a directory that is not empty this flag does nothing.
            arguments = ["serve", "--node", name, "--config", config, "--bootstrap"]
        try:
            self._processes[name] = LocalProcess(arguments, self.log_file(name))
        except OSError as error:
            raise CannotStart(f"{name} cannot be begun: {error}") from None
