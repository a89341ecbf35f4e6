"""A cluster of real processes, each in a network namespace of its own, each node on its own disk.

    with ProcessWorld(folder, Path("cluster_configs/chaos-3.toml"), seed=7, disks="loop") as world:
        world.start()
        world.wait_ready()
        world.kill(world.leader())

The harness reaches every node all the while, whatever is done to the network between them. All
that it makes bears a name, and is found and removed by `python -m chaos clean` even if the harness
is killed.

What lives here: the cluster, its processes, and how it stands with them. What must never live
here: when something is done to it (`chaos.nemeses`), how a disk, a network or a clock is broken
(the modules beside this one). Called by: `chaos.running`, tests. Its calls block; any thread may
make them. Linux only; root for all but processes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from chaos.worlds import groups
from chaos.worlds.changing import Changing
from chaos.worlds.fabric import Fabric
from chaos.worlds.files import Files, spares
from chaos.worlds.mounts import Disk
from chaos.worlds.owners import VARIABLE, own_name
from chaos.worlds.preloaded import Preload, make_library
from chaos.worlds.started import Started
from raftbatch.client import TLS
from raftbatch.config import load, tables_of
from raftbatch.errors import CannotStart
from raftbatch.local import configuration, ports
from raftbatch.local.looking import statuses, unready
from raftbatch.realworld import GivenFiles, RealEntropy, RealFiles
from raftbatch.realworld.tls import read_shown

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import StatusReply

EXECUTORS = 2
DISK_BYTES = 1 << 30  # of each node; what is not written takes nothing

_PORTS = {"peer": 7000, "client": 7100, "http": 7200}  # each has its namespace to itself
_LOOK_S = 0.1  # between two looks at the nodes
_ASK_S = 1.0  # for a node to answer; one that is paused never does
_STOP_S = 30.0  # a node is gone `stop_ms_max` after the signal, 10 s, if it gets a processor
_PROGRAM = ("raftbatch.local.child",)
_JOINED = '"event": "executor.joined"'

Disks = Literal["none", "loop", "tmpfs"]


class ProcessWorld(Changing):
    """See the module's docstring. Leaving it ends and removes everything but the directory.

    Args:
        directory: for its configuration, data and logs; made where it is missing.
        config: the configuration of which a copy is made there, with addresses of its own; where
            it names certificates, they are those of all that can be there.
        seed: draws what the network leaves to chance.
        network: whether everyone is in a namespace of its own; else all are on loopback.
        disks: what the nodes have their data on: the directory itself, an ext4 each, whose power
            can be cut, or a tmpfs each. The last two are in memory.
        disk_bytes: of each such disk.
        executors: how many.
        spare_nodes, spare_executors: how many more have a place, and are not begun until they are
            told to join.
        program: the module that stands for the command `raftbatch`, and its first arguments.

    Attributes, beside those of `Changing`:
        config: its configuration file.
        files: all of them.
        fabric: the network; None: loopback.
        disks: of each node, where they have their own.
        preloads: of each node and executor, where there is a C compiler: what is wrong with its
            syncs and its clock.
    """

    def __init__(
        self,
        directory: Path,
        config: Path,
        *,
        seed: int,
        network: bool = True,
        disks: Disks = "none",
        disk_bytes: int = DISK_BYTES,
        executors: int = EXECUTORS,
        spare_nodes: int = 0,
        spare_executors: int = 0,
        program: Sequence[str] = _PROGRAM,
    ) -> None:
        self.fabric: Fabric | None = None
        self.disks: dict[str, Disk] = {}
        self.preloads: dict[str, Preload] = {}
        self._program = tuple(program)
        self._never = threading.Event()
        values = tables_of(GivenFiles(), str(config))
        given = configuration.addresses_of(values, str(config))
        founders = tuple(given)
        given |= spares(given, spare_nodes)
        names = configuration.executor_names(executors + spare_executors, tuple(given))
        super().__init__(directory, founders, names[:executors], tuple(given), names)
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            self._groups = undo.enter_context(ExitStack())
            if network:
                self.fabric = undo.enter_context(Fabric(self.places, seed=seed))
                values.setdefault("tls", {"insecure": True})
            images = self.directory / "images"
            for node in self.node_places:
                if disks != "none":
                    disk = Disk(disks, self._place(node), images, node, disk_bytes)
                    self.disks[node] = undo.enter_context(disk)
            library = make_library(self.directory)
            for name in self.places:
                if library is not None:
                    preload = Preload(library, self.directory / f"{name}.faults")
                    self.preloads[name] = undo.enter_context(closing(preload))
            undo.callback(self._end_processes)
            self.files = Files(self.directory, config, values, self._placed(given), self.nodes)
            self.config = self.files.config
            self._file = load(RealFiles(), str(self.files.whole))
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all of it; at once, where an error has come up."""
        self.close(0.0 if error is not None else _STOP_S)

    # What there is.

    @property
    def has(self) -> frozenset[str]:
        """What a nemesis may need of it.

        `network`: one of its own. `disk`: each node has a small one of its own. `power`: which can
        lose its power, and become read-only. `preload`: faults within processes. `memory`: limits.
        """
        kinds = {disk.kind for disk in self.disks.values()}
        return frozenset(
            name
            for name, is_there in (
                ("network", self.fabric is not None),
                ("disk", bool(kinds)),
                ("power", "loop" in kinds),
                ("preload", bool(self.preloads)),
                ("memory", not groups.missing()),
            )
            if is_there
        )

    @property
    def addresses(self) -> tuple[str, ...]:
        """Client addresses of the nodes, in the order of their names."""
        return tuple(self._file.node(node).client for node in self.nodes)

    @property
    def tls(self) -> TLS | None:
        """What clients show and trust, who are operators here; None: nothing is encrypted."""
        certificates = self._file.operator()
        if certificates is None:
            return None
        ca, cert, key = read_shown(certificates)
        names = {each.client: str(node) for node, each in self._file.nodes.items()}
        return TLS(ca, cert, key, names)

    def data_dir(self, node: str) -> Path:
        """Return the data directory of a node."""
        return self._place(node) / "data"

    def log_file(self, name: str) -> Path:
        """Return the log file of a node or an executor."""
        return self.directory / "logs" / f"{name}.log"

    def pid(self, name: str) -> int:
        """Return the number of a process that was begun."""
        return self._processes[name].pid

    def is_alive(self, name: str) -> bool:
        """Return whether a node or an executor was begun, and has not ended. Paused is alive."""
        return name in self._processes and self._processes[name].is_alive

    def ending(self, name: str) -> str:
        """Return how a process that was begun ended, and what it said last; empty: it has not."""
        return self._processes[name].ending() if name in self._processes else ""

    # What can be done to processes.

    def start(self) -> None:
        """Start all nodes and executors that do not run. It does not wait for them."""
        with self._gate:
            for name in self.everyone:
                if not self.is_alive(name):
                    self._begin(name)

    def kill(self, name: str) -> None:
        """End a process with SIGKILL, and wait until it is gone. Harmless where it has ended."""
        self._processes[name].kill()

    def pause(self, name: str) -> None:
        """Let a process, and what it started, stand still. Harmless where it has ended."""
        self._processes[name].pause()

    def resume(self, name: str) -> None:
        """Let it go on. Harmless where it was not paused."""
        self._processes[name].send(signal.SIGCONT)

    def terminate(self, name: str, timeout_s: float = _STOP_S) -> int:
        """Stop a process with SIGTERM; return its exit status.

        Raises:
            TimeoutError: it has not ended in that time.
        """
        return self._processes[name].terminate(timeout_s)

    def power_loss(self, nodes: Sequence[str]) -> None:
        """Cut the power of these nodes at one moment, and mount their disks for a new start.

        They stand still first: without power nobody sees that its disk has none, and says so.
        """
        with self._gate:  # whoever empties a directory looks into its disk
            for node in nodes:
                self.pause(node)
            for node in nodes:
                self.disks[node].lose_power()
            for node in nodes:
                self.kill(node)
            for node in nodes:
                self.disks[node].renew()

    def renew(self, node: str) -> None:
        """End a node whose disk has failed, and mount that for a new start."""
        with self._gate:
            self.kill(node)
            self.disks[node].renew()

    def limit_memory(self, name: str, limit_bytes: int) -> Callable[[], None]:
        """Give a process and what it started no more memory than this, beside what they have.

        Returns what lifts the limit; it ends with the process's life in any case.
        """
        there = f"/proc/{self.pid(name)}/task/{self.pid(name)}/children"
        children = Path(there).read_text("utf-8").split() if self.is_alive(name) else []
        limited = groups.MemoryGroup(name, limit_bytes, [self.pid(name), *map(int, children)])
        self._groups.callback(limited.close)
        return limited.close

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Stop all that runs, and kill what runs after that time. The disks stay, to be read.

        Harmless when called twice. Executors first: they leave through the nodes.
        """
        end_s = time.monotonic() + timeout_s
        with self._gate:
            for names in (self.executors, self.nodes) if timeout_s > 0 else ():
                running = [self._processes[name] for name in names if self.is_alive(name)]
                for process in running:
                    process.send(signal.SIGCONT)
                    process.terminated()
                for process in running:
                    process.wait(max(0.0, end_s - time.monotonic()))
            self._end_processes()

    def close(self, timeout_s: float = _STOP_S) -> None:
        """Stop all that runs, and remove what was made, disks with what they hold too.

        Harmless when called twice.
        """
        try:
            self.stop(timeout_s)
        finally:
            self._undo.close()

    # How it stands with it.

    def statuses(self, timeout_s: float = _ASK_S) -> Mapping[str, StatusReply]:
        """Return what those nodes say that answer in that time, of those that are to run."""
        found = statuses(self._file, timeout_s)
        return {node: each for node, each in found.items() if node in self.nodes}

    def leader(self) -> str | None:
        """Return who leads, of those that answer soon, in the latest term; None: nobody."""
        leading = [
            (each.term, node) for node, each in self.statuses().items() if each.role == "leader"
        ]
        return max(leading)[1] if leading else None

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until all nodes serve, one leads, and all executors have joined.

        Raises:
            CannotStart: a process has ended, or it takes longer; the message says what is missing.
        """
        self.wait_until(self._missing, timeout_s)

    def wait_until(self, missing: Callable[[], str], timeout_s: float) -> None:
        """Wait until nothing is missing.

        Args:
            missing: says what is; empty: nothing.
            timeout_s: for so long.

        Raises:
            CannotStart: it takes longer.
        """
        end_s = time.monotonic() + timeout_s
        while what := missing():
            if time.monotonic() > end_s:
                raise CannotStart(f"not ready after {timeout_s:g} s: {what}")
            self._never.wait(_LOOK_S)

    def _missing(self) -> str:
        for name in self.everyone:
            if name not in self._processes:
                raise CannotStart(f"{name} was not begun: start() comes first")
            if ending := self._processes[name].ending():
                raise CannotStart(f"{name} does not run: {ending}")
        found = self.statuses()
        if waited_for := unready(found, self.nodes, self.executors):
            return waited_for
        # The nodes may still know an earlier life of it.
        strange = [x for x in self.executors if not self._processes[x].has_said(_JOINED)]
        return f"{strange[0]} has not joined yet" if strange else ""

    # How it is made.

    def _placed(self, given: configuration.Addresses) -> configuration.Addresses:
        """Return where the nodes are, for those kinds of addresses that they were given."""
        if self.fabric is None:
            free = ports.free_ports(sum(map(len, given.values())), RealEntropy())
            return {
                node: {key: f"127.0.0.1:{free.pop()}" for key in keys}
                for node, keys in given.items()
            }
        return {
            node: {key: f"{self.fabric.address(node)}:{_PORTS[key]}" for key in keys}
            for node, keys in given.items()
        }

    def _begin(self, name: str, flags: Sequence[str] | None = None) -> None:
        if flags is None and name in self._joining:
            flags = ("--join",)
        is_node = name in self.node_places
        arguments = self.files.node(name, flags) if is_node else self.files.executor(name)
        if name in self._processes:
            self._processes[name].release()
        self._processes[name] = Started(
            [*self._program, *arguments],
            self.log_file(name),
            self._enter(name),
            self._environment(name),
        )

    def _enter(self, name: str) -> Callable[[Sequence[str]], Sequence[str]]:
        """Return what makes of a command one that runs where this process belongs."""
        fabric = self.fabric
        if fabric is None:
            return lambda command: command
        return lambda command: fabric.enter(name, command)

    def _environment(self, name: str) -> dict[str, str]:
        own = self.preloads[name].environment() if name in self.preloads else {}
        return {**os.environ, **own, VARIABLE: own_name()}

    def _place(self, node: str) -> Path:
        return self.directory / "disks" / node

    def _end_processes(self) -> None:
        for process in self._processes.values():
            process.kill()
