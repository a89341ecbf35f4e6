"""Starting, asking and killing the nodes of a benchmark.

What lives here: processes and pipes. What must never live here: what is
measured. Called by: `measures`.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO, Any

from raftbatch.ids import NodeId

NODES = [NodeId("n1"), NodeId("n2"), NodeId("n3")]
_PATIENCE_S = 120.0

Event = dict[str, Any]


class Node:
    """A running process.

    Attributes:
        id: its node.
        leading: its event of beginning to lead, the latest; None before any.
    """

    def __init__(self, node: NodeId, directory: Path, addresses: dict[NodeId, str]) -> None:
        self.id = node
        spec = {"node": node, "directory": str(directory / node), "addresses": addresses}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.replication.node", json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._events: Queue[Event | None] = Queue()
        self.leads: Queue[Event] = Queue()
        Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def wait(self, event: str) -> Event:
        """Return the next event of that name."""
        while True:
            found = self._events.get(timeout=_PATIENCE_S)
            if found is None:
                raise RuntimeError(f"{self.id} ended")
            if found["event"] == event:
                return found

    def ask(self, do: str, **values: object) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **values}) + "\n")
        self._process.stdin.flush()

    def state(self) -> Event:
        """Return its state now."""
        self.ask("state")
        return self.wait("state")

    def kill(self) -> None:
        """End it, as a crash would."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self, lines: IO[str]) -> None:
        try:
            for line in lines:
                event = json.loads(line)
                (self.leads if event["event"] == "leads" else self._events).put(event)
        except ValueError:
            pass  # closed under us
        self._events.put(None)


class Cluster:
    """Three nodes on loopback, below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._addresses = dict(zip(NODES, _free_addresses(len(NODES)), strict=True))
        self.nodes: dict[NodeId, Node] = {}

    def start(self, node: NodeId) -> Event:
        """Start a node; return its event of being open."""
        self.nodes[node] = Node(node, self._directory, self._addresses)
        return self.nodes[node].wait("open")

    def kill(self, node: NodeId) -> None:
        """Kill a node."""
        self.nodes.pop(node).kill()

    def leader(self) -> Node:
        """Return the node that leads and has committed so, once there is one."""
        while True:
            states = {node: process.state() for node, process in self.nodes.items()}
            leading = [each for each, found in states.items() if found["role"] == "leader"]
            newest = max(found["term"] for found in states.values())
            for each in leading:
                if states[each]["term"] == newest and states[each]["commit"]:
                    return self.nodes[each]

    def kill_all(self) -> None:
        """Kill all."""
        for node in list(self.nodes):
            self.kill(node)


@contextmanager
def running(directory: Path) -> Iterator[Cluster]:
    """Give a cluster of three that runs, and kill it at the end."""
    cluster = Cluster(directory)
    try:
        for node in NODES:
            cluster.start(node)
        yield cluster
    finally:
        cluster.kill_all()


def _free_addresses(count: int) -> Sequence[str]:
    """Return addresses that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    finally:
        for each in sockets:
            each.close()
