"""A cluster of real processes on loopback, its configuration, and a client for it.

    with ServedCluster(folder) as cluster:
        cluster.start_all("--bootstrap")
        leader = cluster.leader()
        cluster.append(leader, [b"one", b"two"])

What lives here: free ports, the file, starting, looking and appending. What must
never live here: what should come of it. Called by: end-to-end and chaos tests.
Nothing sleeps: waits end with an event, or when a status says so.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from raftbatch.local import ports
from raftbatch.realworld import RealEntropy
from raftbatch.v1 import admin_pb2, log_pb2
from raftbatch.v1.admin_pb2_grpc import AdminStub
from raftbatch.v1.log_pb2_grpc import LogStub
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process

STORAGE = """
[storage]
data_dir = "data/{node}"
segment_bytes = 1_048_576
entry_bytes_max = 1_048_576
snapshot_bytes_max = 4_194_304
disk_low_bytes = 33_554_432
disk_reserve_bytes = 16_777_216
"""
"""Small, so that a test needs neither time nor space."""

CALM = """
[timing]
election_ms_min = 900
election_ms_max = 1500
"""
"""No stall of a busy machine makes another lead; who sees the leader die does not wait for it."""
AS_SHIPPED = "[timing]\n"
"""For tests that a leader's silence is a part of."""

_LOOK_S = 0.02  # between two looks at statuses; a process's line ends the wait at once


class ServedCluster:
    """See the module's docstring. Leaving it kills and reaps all processes.

    Args:
        folder: an empty folder of its own.
        nodes: their names.
        settings: further tables of the file; where `[timing]` is not among them, several nodes
            have theirs of `CALM`.
        address: of the machine that the nodes are on; empty: one of this machine's own, which
            nobody else uses.
        credentials: of this client, where the settings ask for TLS.
        replica: what the nodes replicate, `opaque` entries or what the `scheduler` makes of them.
        serves_http: whether the nodes have HTTP ports.

    Attributes:
        file: the configuration file.
        processes: the last one of each node.
        programs: what a node is started with, where that is not `raftbatch`.
        starts_anew: whether each has an interpreter started for it: see `Process`.
        peers, clients, https: addresses, by node; the last of HTTP.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[str] = ("n1", "n2", "n3"),
        settings: str = "",
        address: str = "",
        credentials: grpc.ChannelCredentials | None = None,
        replica: str = "opaque",
        serves_http: bool = False,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.file = str(folder / "cluster.toml")
        self.processes: dict[str, Process] = {}
        self.programs: dict[str, Sequence[str]] = {}
        self.starts_anew = False
        self.address = address = address or loopback()
        free = free_ports(3 * len(nodes), address)
        self.peers = {node: f"{address}:{free.pop()}" for node in nodes}
        self.clients = {node: f"{address}:{free.pop()}" for node in nodes}
        self.https = {node: f"{address}:{free.pop()}" for node in nodes if serves_http}
        self.settings = settings
        self.replica = replica
        self._credentials = credentials
        self._stack = ExitStack()
        self.write(self.file, nodes)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill and reap whatever still runs."""
        if error is not None:
            for node, process in self.processes.items():
                error.add_note(f"{node} said:\n{process.said}")
        self._stack.close()

    # What an operator does.

    def write(self, path: str, nodes: Sequence[str]) -> None:
        """Write a configuration file that names these nodes."""
        tables = [f'[cluster]\nname = "test"\nreplica = "{self.replica}"\n']
        for node in nodes:
            tables.append(
                f'[nodes.{node}]\npeer = "{self.peers[node]}"\nclient = "{self.clients[node]}"\n'
            )
            if node in self.https:
                tables.append(f'http = "{self.https[node]}"\n')
        timing = CALM if len(nodes) > 1 and "[timing]" not in self.settings else ""
        text = "\n".join([*tables, STORAGE, self.settings, timing])
        Path(path).write_text(text, encoding="utf-8")

    def add(self, node: str, address: str = "") -> str:
        """Give another node addresses, in a file of its own; return that."""
        address = address or self.address
        peer, client = free_ports(2, address)
        self.peers[node], self.clients[node] = f"{address}:{peer}", f"{address}:{client}"
        path = str(self.folder / f"with-{node}.toml")
        self.write(path, [*self.processes, node])
        return path

    def start(self, node: str, *flags: str, file: str = "") -> Process:
        """Start a node; the process before it must have ended."""
        assert node not in self.processes or not self.processes[node].is_up
        program = self.programs.get(node, RAFTBATCH)
        command = [*program, "serve", "--node", node, "--config", file or self.file, *flags]
        process = self._stack.enter_context(Process(command, anew=self.starts_anew))
        self.processes[node] = process
        return process

    def start_all(self, *flags: str) -> None:
        """Start all nodes of the file, and wait until each serves."""
        for node in list(self.clients):
            self.start(node, *flags)
        for node in list(self.clients):
            self.ready(node)

    def ready(self, node: str) -> None:
        """Wait until a node has opened its log."""
        self.processes[node].wait_for("node.started")

    def data(self, node: str) -> Path:
        """Return a node's data directory."""
        return self.folder / "data" / node

    # What is to be seen.

    def status(self, node: str) -> admin_pb2.StatusReply | None:
        """Return what a node says of itself; None where it does not answer."""
        try:
            with self.channel(node) as channel:
                reply: admin_pb2.StatusReply = AdminStub(channel).Status(
                    admin_pb2.StatusRequest(), timeout=2.0
                )
                return reply
        except grpc.RpcError:
            return None

    def heard(self, node: str) -> admin_pb2.StatusReply:
        """Return what a node says of itself, once it answers."""
        found: list[admin_pb2.StatusReply] = []

        def answers() -> bool:
            found.extend(filter(None, [self.status(node)]))
            return bool(found)

        self.until(answers, f"answer of {node}")
        return found[0]

    def statuses(self) -> dict[str, admin_pb2.StatusReply]:
        """Return what all say that answer."""
        found = {node: self.status(node) for node in self.processes}
        return {node: each for node, each in found.items() if each is not None}

    def leader(self) -> str:
        """Return who leads, once a majority of those that answer agree on it."""
        found: list[str] = []

        def agreed() -> bool:
            found.extend(filter(None, [self._agreed()]))
            return bool(found)

        self.until(agreed, "leader")
        return found[0]

    def _agreed(self) -> str | None:
        statuses = self.statuses()
        leaders = [node for node, each in statuses.items() if each.role == "leader"]
        for leader in leaders:
            followers = [each for each in statuses.values() if each.leader == leader]
            voters = [each for each in statuses[leader].members if each.rank == "voter"]
            if len(followers) > len(voters) // 2:
                return leader
        return None

    def agree(self, *nodes: str) -> bytes:
        """Wait until nodes have applied the same; return the digest, equal on all."""
        chosen = nodes or tuple(self.processes)
        digests: set[bytes] = set()

        def same() -> bool:
            statuses = {node: each for node, each in self.statuses().items() if node in chosen}
            applied = {each.applied for each in statuses.values()}
            if len(statuses) < len(chosen) or len(applied) != 1 or applied == {0}:
                return False
            # Of the same answers: a later one may be of an entry that has come meanwhile.
            digests.update(each.digest for each in statuses.values())
            return True

        self.until(same, f"equal applied indices of {chosen}")
        assert len(digests) == 1, digests
        return digests.pop()

    def until(self, holds: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
        """Wait until something holds that statuses say."""
        clock = _Deadline(limit_s)
        while not holds():
            assert clock.wait(_LOOK_S), f"no {what}"

    # What a client does.

    def channel(self, node: str) -> grpc.Channel:
        """Return a channel to a node, whose certificate names it."""
        if self._credentials is None:
            return grpc.insecure_channel(self.clients[node])
        options = [("grpc.ssl_target_name_override", node)]
        return grpc.secure_channel(self.clients[node], self._credentials, options)

    def append(self, node: str, entries: Sequence[bytes]) -> list[log_pb2.AppendResult]:
        """Append entries in one message; return a result each, in their order."""
        with self.appending(node, entries) as replies:
            results = [result for reply in replies for result in reply.results]
        return sorted(results, key=lambda result: result.number)

    @contextmanager
    def appending(
        self, node: str, entries: Sequence[bytes]
    ) -> Iterator[Iterator[log_pb2.AppendReply]]:
        """Append entries in one message, and yield the replies as they come."""
        numbered = [
            log_pb2.NumberedEntry(number=number, data=data) for number, data in enumerate(entries)
        ]
        with self.channel(node) as channel:
            request = log_pb2.AppendRequest(entries=numbered)
            replies = LogStub(channel).Append(iter([request]), timeout=LIMIT_S)
            yield replies  # kept here: a call that nobody holds is cancelled

    def acknowledged(self, node: str, entries: Sequence[bytes]) -> list[int]:
        """Append entries, each of which must be acknowledged; return where they stand."""
        results = self.append(node, entries)
        assert all(result.WhichOneof("outcome") == "index" for result in results), results
        return [result.index for result in results]


class _Deadline:
    """A wait that ends: what cannot come in time is a failure, not a delay."""

    def __init__(self, limit_s: float) -> None:
        self._looks = int(limit_s / _LOOK_S)
        self._never = threading.Event()

    def wait(self, pause_s: float) -> bool:
        """Pause; return whether there is time left."""
        self._looks -= 1
        self._never.wait(pause_s)
        return self._looks > 0


def loopback() -> str:
    """Return an address of this machine; on Linux one that no other test is likely to use.

    A port that was free a moment ago is still free then, and while a node is down.
    """
    if sys.platform != "linux":
        return "127.0.0.1"
    drawn = RealEntropy().random_bytes(3)
    return f"127.{64 + drawn[0] % 64}.{drawn[1]}.{1 + drawn[2] % 254}"


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Return ports that nobody listens on at this moment.

    The kernel gives them to nobody who connects, so that they are free while a node is down.
    """
    return ports.free_ports(count, RealEntropy(), address)
