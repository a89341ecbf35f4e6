"""A network for real processes: each node in a namespace of its own, on one switch of ours.

    with Fabric(["n1", "n2", "n3"], seed=7) as fabric:
        process = fabric.run("n1", [sys.executable, "-m", ...], cwd=..., log=...)
        fabric.split(["n1"], ["n2", "n3"])
        fabric.heal()

The harness is on the switch too, under `fabric.harness`: its own sockets, in the process that
made the fabric, reach every node under `address(node)`, over links that no rule ever changes.

What lives here: nodes, and what can be done to the network between them. What must never live
here: when it is done (nemeses); the product. Called by: tests/fabric/, worlds of real
processes. Needs root (`chaos.worlds.namespaces.missing`).

When a call that changes the network returns, the change holds for all that has not arrived.
Calls may come from any thread.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path
from typing import IO, Any

from chaos.worlds.namespaces import (
    Network,
    add_namespace,
    add_port,
    enter,
    remove_namespace,
)
from chaos.worlds.owners import Unable
from chaos.worlds.switch import Counts, Rule
from raftbatch.closing import Closing

MTU_BYTES = 9_000
_ROOT = Path(__file__).parents[2]
_ANSWER_S_MAX = 30.0  # for the switch, which answers in microseconds, on any machine
_NODES_MAX = 32  # every pair has a link, and the switch looks at all that have rules


class Fabric(Closing):
    """Nodes in namespaces, the switch between them, and the processes started in them.

    Args:
        nodes: their names.
        seed: draws which frames are lost or sent twice, and their jitter.
        mtu_bytes: of a frame. Large ones are what makes a switch in Python fast.

    Attributes:
        harness: the address of the harness itself.
        switch: the process that forwards frames.
    """

    def __init__(self, nodes: Sequence[str], *, seed: int = 0, mtu_bytes: int = MTU_BYTES) -> None:
        if len(set(nodes)) != len(nodes) or not 0 < len(nodes) <= _NODES_MAX:
            raise ValueError(f"1 to {_NODES_MAX} names, each once: {nodes}")
        self.nodes = tuple(nodes)
        self._ports = {node: number for number, node in enumerate(nodes)}
        self._rules = dict.fromkeys(permutations(nodes, 2), Rule())
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        with ExitStack() as undo, ExitStack() as given:
            self._network = Network.claimed()
            undo.callback(self._network.claim.close)
            self.harness = self._network.address(len(nodes))
            self._namespaces = {node: self._network.namespace(node) for node in nodes}
            cables = []
            for port, namespace in enumerate([*self._namespaces.values(), None]):
                if namespace is not None:
                    add_namespace(namespace)
                    undo.callback(remove_namespace, namespace)
                cables.append(add_port(self._network, port, len(nodes) + 1, mtu_bytes, namespace))
                given.callback(os.close, cables[-1])  # the switch alone is to hold it
            self.switch = self._connect(cables, seed, undo)
            undo.callback(self._end_processes)
            self._undo = undo.pop_all()

    def _connect(
        self, cables: Sequence[int], seed: int, undo: ExitStack
    ) -> subprocess.Popen[bytes]:
        """Start the switch that these cables lead to; return when it forwards frames."""
        self._control, control = socket.socketpair()
        with control:
            command = [sys.executable, "-m", "chaos.worlds.switch", "--seed", str(seed)]
            command += ["--control", str(control.fileno()), *map(str, cables)]
            undo.callback(self._control.close)
            switch = subprocess.Popen(
                command,
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[control.fileno(), *cables],
                start_new_session=True,  # an interrupt typed at the terminal is for the harness
            )
        undo.callback(_end_switch, switch, self._control)
        self._control.settimeout(_ANSWER_S_MAX)
        self._ask({})
        return switch

    def address(self, node: str) -> str:
        """Return the address of a node, the same from everywhere."""
        return self._network.address(self._ports[node])

    def enter(self, node: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs this one at a node, as the same process."""
        return enter(self._namespaces[node], command)

    def run(
        self,
        node: str,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process at a node; whatever still runs when the fabric is closed is killed.

        Signals sent to what is returned reach the command itself: nothing stands between.

        Args:
            node: where.
            command: what, as a list of words; no shell sees it.
            cwd: its folder; None: ours.
            env: its whole environment; None: ours.
            log: a file to which both its outputs are appended, in place of the next two.
            stdin: as of `subprocess.Popen`; nothing by default.
            stdout: the same; ours by default.
            stderr: the same.
        """
        output = open(log, "ab") if log is not None else None  # noqa: SIM115 - closed below
        try:
            process = subprocess.Popen(
                self.enter(node, command),
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=output or stdout,
                stderr=output or stderr,
                start_new_session=True,  # an interrupt typed at the terminal is for the harness
            )
        finally:
            if output is not None:
                output.close()
        self._processes.append(process)
        return process

    def cut(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Let nothing through between two nodes; with `one_way`, nothing from a to b."""
        self._change(self._pairs(a, b, one_way), cut=True)

    def isolate(self, node: str, *, hears: bool = False, speaks: bool = False) -> None:
        """Cut a node off from all others, or let it still hear, or speak."""
        others = [other for other in self.nodes if other != node]
        pairs = [] if hears else [(other, node) for other in others]
        pairs += [] if speaks else [(node, other) for other in others]
        self._change(pairs, cut=True)

    def split(self, *groups: Sequence[str]) -> None:
        """Cut every link between nodes of different groups."""
        pairs = [(a, b) for mine, others in permutations(groups, 2) for a in mine for b in others]
        if any(a == b for a, b in pairs):
            raise ValueError(f"a node is in one group: {groups}")
        self._change(pairs, cut=True)

    def slow(
        self,
        a: str,
        b: str,
        *,
        delay_s: float = 0.0,
        jitter_s: float = 0.0,
        bytes_per_s: int = 0,
        queue_bytes: int = Rule().queue_bytes,
        one_way: bool = False,
    ) -> None:
        """Slow a link down, each way; what else holds for it stays.

        Args:
            a: where from.
            b: where to, and back.
            delay_s: of each frame.
            jitter_s: up to so much more, drawn; frames keep their order.
            bytes_per_s: no more than this; 0: no limit.
            queue_bytes: waiting for that; the rest is dropped.
            one_way: only from a to b.
        """
        self._change(
            self._pairs(a, b, one_way),
            delay_s=delay_s,
            jitter_s=jitter_s,
            bytes_per_s=bytes_per_s,
            queue_bytes=queue_bytes,
        )

    def lossy(
        self, a: str, b: str, *, loss: float = 0.0, duplicate: float = 0.0, one_way: bool = False
    ) -> None:
        """Drop this share of frames, send that share twice; what else holds for the link stays."""
        self._change(self._pairs(a, b, one_way), loss=loss, duplicate=duplicate)

    def heal(self, pairs: Collection[tuple[str, str]] | None = None) -> None:
        """Let links be as in the beginning: what was on its way arrives at once.

        Args:
            pairs: those from the first to the second of each; None: all.
        """
        with self._lock:
            changed = [pair for pair, rule in self._rules.items() if rule != Rule()]
            self._tell({pair: Rule() for pair in changed if pairs is None or pair in pairs})

    def rule(self, a: str, b: str) -> Rule:
        """Return what holds from a to b."""
        return self._rules[a, b]

    def counts(self, a: str, b: str) -> Counts:
        """Return what became of the frames from a to b so far."""
        wanted = [self._ports[a], self._ports[b]]
        with self._lock:
            answer = self._ask({"counts": True})
        [counts] = [counts for *pair, counts in answer if pair == wanted]
        return Counts(**counts)

    def close(self) -> None:
        """Kill what runs at the nodes, end the switch, remove the namespaces."""
        self._undo.close()

    def _end_processes(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def _pairs(self, a: str, b: str, one_way: bool) -> list[tuple[str, str]]:
        return [(a, b)] if one_way else [(a, b), (b, a)]

    def _change(self, pairs: Sequence[tuple[str, str]], **fields: Any) -> None:
        """Change these fields of the rules of these links."""
        with self._lock:
            self._tell({pair: replace(self._rules[pair], **fields) for pair in pairs})

    def _tell(self, rules: Mapping[tuple[str, str], Rule]) -> None:
        told = [[self._ports[a], self._ports[b], asdict(rule)] for (a, b), rule in rules.items()]
        self._ask({"rules": told})
        self._rules.update(rules)

    def _ask(self, command: dict[str, Any]) -> list[list[Any]]:
        """Give the switch a command; return its answer."""
        try:
            self._control.sendall(json.dumps(command).encode() + b"\n")
            answer = self._hear()
        except ConnectionError:
            answer = b""
        if not answer:
            raise Unable("the switch has ended")
        said: list[list[Any]] = json.loads(answer)
        return said

    def _hear(self) -> bytes:
        """Return a line from the switch; nothing if it has ended."""
        line = b""
        while not line.endswith(b"\n"):
            got = self._control.recv(65_536)
            if not got:
                return b""
            line += got
        return line


def _end_switch(switch: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Let the switch end, and the cables with it."""
    control.close()
    try:
        switch.wait(_ANSWER_S_MAX)
    except subprocess.TimeoutExpired:
        switch.kill()
        switch.wait()
