"""What `raftbatch up` prints: for people, in colours on a terminal, or as JSON lines.

What lives here: words. What must never live here: a process. Called by: `up`.
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any, Protocol

from raftbatch.cli.text import Table, counted, printable, terminal
from raftbatch.local.processes import own_command
from raftbatch.local.supervisor import Died, Restarted

if TYPE_CHECKING:
    from rich.status import Status

    from raftbatch.local import LocalCluster

_LEADERLESS_LOOKS = 6  # an election is over sooner


class View(Protocol):
    """Told what happens, in this order."""

    def started(self) -> None:
        """All processes were begun."""
        ...

    def waiting(self, missing: str) -> None:
        """Something is missing until all are there; empty: nothing more."""
        ...

    def ready(self, leader: str) -> None:
        """All are there."""
        ...

    def happened(self, event: Died | Restarted) -> None:
        """A process died, or was started again."""
        ...

    def leads(self, leader: str) -> None:
        """Somebody leads, or nobody: asked again and again."""
        ...

    def stopping(self) -> None:
        """A signal came."""
        ...

    def stopped(self) -> None:
        """All have ended."""
        ...


def view(cluster: LocalCluster, *, is_kept: bool, as_json: bool) -> View:
    """Return what tells of a cluster; `is_kept`: its data is there when it has ended."""
    return _JsonView(cluster) if as_json else _PersonView(cluster, is_kept=is_kept)


class _JsonView:
    """One object a line, flushed, which `event` names."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._leader = ""

    def started(self) -> None:
        cluster = self._cluster
        self._say("cluster.started", directory=str(cluster.directory), config=str(cluster.config))

    def waiting(self, missing: str) -> None:
        """Nothing is said: what follows is."""

    def ready(self, leader: str) -> None:
        self._leader = leader
        cluster = self._cluster
        nodes = [
            {"node": each, "address": cluster.address(each)} | self._process(each)
            for each in cluster.nodes
        ]
        executors = [{"executor": each} | self._process(each) for each in cluster.executors]
        self._say("cluster.ready", leader=leader, nodes=nodes, executors=executors)

    def happened(self, event: Died | Restarted) -> None:
        if isinstance(event, Died):
            self._say("process.died", name=event.name, why=event.why, pause_s=event.pause_s)
        else:
            self._say("process.restarted", name=event.name, **self._process(event.name))

    def leads(self, leader: str) -> None:
        if leader != self._leader:
            self._leader = leader
            self._say("leader.changed", leader=leader)

    def stopping(self) -> None:
        self._say("stop.begun")

    def stopped(self) -> None:
        self._say("cluster.stopped")

    def _process(self, name: str) -> dict[str, Any]:
        return {"pid": self._cluster.pid(name), "log": str(self._cluster.log_file(name))}

    def _say(self, event: str, **fields: object) -> None:
        sys.stdout.write(json.dumps({"event": event} | fields) + "\n")
        sys.stdout.flush()


class _PersonView:
    """Tables when all is there, then a line for each thing that happens."""

    def __init__(self, cluster: LocalCluster, *, is_kept: bool) -> None:
        self._cluster = cluster
        self._is_kept = is_kept
        self._print = terminal()
        self._leader = ""
        self._leaderless = 0
        self._missing = ""
        self._spinner: Status | None = None

    def started(self) -> None:
        cluster = self._cluster
        nodes, executors = len(cluster.nodes), len(cluster.executors)
        counts = f"{counted(nodes, 'node')}, {counted(executors, 'executor')}"
        self._say(f"raftbatch: {counts}, in {cluster.directory}", "bold")
        if cluster.has_other_ports:
            self._say("the usual addresses are in use: these nodes have others", "yellow")

    def waiting(self, missing: str) -> None:
        if missing == self._missing:
            return
        self._missing = missing
        if not sys.stdout.isatty():
            if missing:
                self._say(f"starting: {missing}")
            return
        text = f"starting: {printable(missing)}"
        if not missing:
            if self._spinner is not None:
                self._spinner.stop()
        elif self._spinner is not None:
            self._spinner.update(text)
        else:
            from rich.console import Console

            self._spinner = Console(highlight=False, markup=False, emoji=False).status(text)
            self._spinner.start()

    def ready(self, leader: str) -> None:
        self._leader = leader
        cluster = self._cluster
        table = Table("", ["name", "what", "client address", " pid", "log"], self._say)
        self._say("")
        table.add(["name", "what", "client address", "pid", "log"], "dim")
        for name in (*cluster.nodes, *cluster.executors):
            is_node = name in cluster.nodes
            what = "executor" if not is_node else "leader" if name == leader else "node"
            address = cluster.address(name) if is_node else "-"
            log = str(cluster.log_file(name))
            cells = [name, what, address, str(cluster.pid(name)), log]
            table.add([printable(cell) for cell in cells], "bold" if what == "leader" else "")
        table.flush()
        self._say("")
        self._say("In another terminal, here:", "dim")
        for line in self._commands(leader):
            self._say(f"  {line}")
        self._say("Ctrl-C stops all.", "dim")

    def happened(self, event: Died | Restarted) -> None:
        if isinstance(event, Restarted):
            self._say(f"{event.name} was started again, as process {self._cluster.pid(event.name)}")
            return
        first, _, rest = event.why.partition("\n")
        self._say(f"{event.name} has died: {first}", "red")
        for line in rest.splitlines():
            self._say(f"    {line}", "dim")
        self._say(f"{event.name} is started again in {event.pause_s:g} s", "yellow")

    def leads(self, leader: str) -> None:
        if leader:
            self._leaderless = 0
            if leader != self._leader:
                self._say(f"{leader} leads now", "green")
                self._leader = leader
            return
        self._leaderless += 1
        if self._leaderless == _LEADERLESS_LOOKS:
            self._say("no node leads: more than half of them have to run", "red")
            self._leader = ""

    def stopping(self) -> None:
        self._say("stopping", "yellow")

    def stopped(self) -> None:
        there = f"; its data stays in {self._cluster.directory}" if self._is_kept else ""
        self._say(f"stopped{there}")

    def _commands(self, leader: str) -> list[str]:
        """Return what to try next."""
        cluster = self._cluster
        config = f"--config {shlex.quote(str(cluster.config))}"
        command = own_command()
        found = [f"{command} infer {each} {config}" for each in cluster.examples()]
        found.append(f"{command} status {config}")
        if len(cluster.nodes) > 1 and leader:
            found.append(f"kill -9 {cluster.pid(leader)}    # the leader: nothing is lost")
        return found

    def _say(self, line: str, style: str = "") -> None:
        self._print(printable(line), style)
        sys.stdout.flush()
