"""A fabric with an agent at each node, and what only both together can tell."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from chaos.worlds.fabric import Fabric
from chaos.worlds.namespaces import missing
from tests.fabric.agent import DATAGRAMS, datagrams
from tests.tidy.tree import ROOT

_MISSING = missing()
needs_namespaces = [
    pytest.mark.root,
    pytest.mark.skipif(bool(_MISSING), reason=_MISSING),
]


class Nodes:
    """The nodes of a fabric, each with an agent that does as it is told."""

    def __init__(self, fabric: Fabric, stack: ExitStack) -> None:
        self.fabric = fabric
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._fence = stack.enter_context(datagrams(fabric.harness))
        for node in fabric.nodes:
            command = [sys.executable, "-m", "tests.fabric.agent"]
            pipe = subprocess.PIPE
            process = fabric.run(node, command, cwd=ROOT, stdin=pipe, stdout=pipe)
            self.processes[node] = process
            assert process.stdin is not None
            assert process.stdout is not None
            stack.callback(process.stdin.close)
            stack.callback(process.stdout.close)
        for node in fabric.nodes:
            assert self._answer(node) == "ready"

    def tell(self, node: str, do: str, **arguments: Any) -> Any:
        """Have a node do something; return its answer."""
        process = self.processes[node]
        assert process.stdin is not None
        process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        process.stdin.flush()
        return self._answer(node)

    def connect(self, a: str, b: str, limit_s: float = 30.0) -> str:
        """Have a connect to b and keep it; return how it went."""
        return str(self.tell(a, "connect", to=self.fabric.address(b), limit_s=limit_s))

    def send(self, a: str, b: str, *words: str) -> None:
        """Send datagrams from a to b; return when the switch has taken them in."""
        self.tell(a, "send", to=self.fabric.address(b), words=words)
        self.tell(a, "send", to=self.fabric.harness, words=["fence"])  # in order, never cut
        assert self._fence.recv(64) == b"fence"

    def received(self, a: str, b: str) -> list[str]:
        """Heal all; return the datagrams that b had not been asked for yet, all from a."""
        self.fabric.heal()
        self.send(a, b, "end")
        words: list[str] = self.tell(b, "receive", until="end")
        return words

    def passing(self) -> set[tuple[str, str]]:
        """Try every link as it is now, heal all, and return those that let a datagram through."""
        nodes = self.fabric.nodes
        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        for a, b in pairs:
            self.send(a, b, a)
        self.fabric.heal()
        for b in nodes:
            self._fence.sendto(b"end", (self.fabric.address(b), DATAGRAMS))
        return {(a, b) for b in nodes for a in self.tell(b, "receive", until="end")}

    def _answer(self, node: str) -> Any:
        process = self.processes[node]
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the agent of {node} has ended"
        return json.loads(line)


@contextmanager
def running(*names: str, seed: int = 0) -> Iterator[Nodes]:
    """Make a fabric with an agent at each node."""
    with ExitStack() as stack:
        # The pipes are closed after the processes have been killed.
        pipes = stack.enter_context(ExitStack())
        fabric = stack.enter_context(Fabric(names, seed=seed))
        yield Nodes(fabric, pipes)
