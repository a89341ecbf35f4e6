"""Who of a world is to run: nodes and executors that come and go while it works.

    world.join("n4")             it is started, and joins the cluster by itself
    world.leave("n2")            nobody starts it any more, or misses it
    world.forget("n2")           its directory is empty, what it held is kept for the judgement

What lives here: that. What must never live here: what an operator tells the cluster
(`chaos.workloads.members`). Called by: `chaos.worlds.processes`, whose part it is.
"""

from __future__ import annotations

import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chaos.worlds.started import Started

_SERVES = '"event": "node.started"'
_LOOK_S = 0.1


class Former(NamedTuple):
    """A node's directory before it was emptied.

    Attributes:
        node: whose.
        kept: a copy.
    """

    node: str
    kept: Path


class Changing(ABC):
    """See the module's docstring. Any thread may call it.

    Args:
        directory: of the world.
        nodes: those that are to run in the beginning.
        executors: the same.
        node_places: names of all nodes there can be.
        executor_places: names of all executors there can be.

    Attributes:
        nodes: names of the nodes that are to run.
        executors: names of the executors that are to run.
        node_places: names of all nodes there can be.
        places: names of all nodes and executors there can be.
        former: directories that were emptied.
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[str],
        executors: Sequence[str],
        node_places: Sequence[str],
        executor_places: Sequence[str],
    ) -> None:
        self.directory = directory.absolute()
        self.nodes = tuple(nodes)
        self.executors = tuple(executors)
        self.node_places = tuple(node_places)
        self.places = (*node_places, *executor_places)
        self.former: list[Former] = []
        self._processes: dict[str, Started] = {}
        self._joining: set[str] = set()
        self._gate = threading.RLock()

    @property
    def everyone(self) -> tuple[str, ...]:
        """Names of the nodes and executors that are to run."""
        return (*self.nodes, *self.executors)

    @abstractmethod
    def data_dir(self, node: str) -> Path:
        """Return the data directory of a node."""

    @abstractmethod
    def is_alive(self, name: str) -> bool:
        """Return whether a node or an executor was begun, and has not ended. Paused is alive."""

    @abstractmethod
    def _begin(self, name: str, flags: Sequence[str] | None = None) -> None:
        """Start a process that does not run; a node with these flags."""

    def restart(self, name: str) -> None:
        """Start a node or an executor, unless it runs or is not to. It does not wait for it."""
        with self._gate:
            if name in self.everyone and not self.is_alive(name):
                self._begin(name)

    def join(self, name: str) -> None:
        """Let one of `places` be of those that are to run, and start it; a node joins by itself."""
        with self._gate:
            if name in self.node_places:
                self._joining.add(name)
            # It runs before it is missed: else its last end would be taken for this life's.
            if not self.is_alive(name):
                self._begin(name)
            there = {*self.everyone, name}
            self.nodes = tuple(each for each in self.node_places if each in there)
            self.executors = tuple(each for each in self.places if each in there - {*self.nodes})

    def leave(self, name: str) -> None:
        """Let one be none that is to run: it goes on, but nobody starts it or misses it."""
        with self._gate:
            self.nodes = tuple(each for each in self.nodes if each != name)
            self.executors = tuple(each for each in self.executors if each != name)

    def wait_end(self, name: str, timeout_s: float) -> str:
        """Return how one that has left ended, once it has; empty: it goes on after that time."""
        self._processes[name].wait(timeout_s)
        return self._processes[name].ending()

    def try_start(self, node: str, flags: Sequence[str], timeout_s: float) -> tuple[str, bool]:
        """Start a node that has left, and end it once it serves, or after that time.

        Returns:
            how it ended by itself; empty: it did not. And whether it came to serve.
        """
        with self._gate:
            self._begin(node, flags)
        process, end_s = self._processes[node], time.monotonic() + timeout_s
        while not process.has_said(_SERVES) and time.monotonic() < end_s:
            if ending := self.wait_end(node, _LOOK_S):
                return ending, process.has_said(_SERVES)
        process.kill()
        return "", process.has_said(_SERVES)

    def forget(self, node: str) -> Former:
        """Empty the directory of a node that has left and does not run; keep what it held.

        Raises:
            OSError: its disk fails.
        """
        with self._gate:  # nobody takes its disk away meanwhile
            kept = self.directory / "former" / f"{node}-{len(self.former) + 1}"
            # Not whole where its disk failed at the last try.
            shutil.copytree(self.data_dir(node), kept, dirs_exist_ok=True)
            shutil.rmtree(self.data_dir(node))
            self.former.append(Former(node, kept))
            return self.former[-1]
