"""A client port over a real socket, before an api that does what the test wants.

What lives here: that. What must never live here: what a test expects. Called by: the
tests of the services.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc.aio

from coordinator.answers import Ticket, Waiting
from coordinator.api import Api
from coordinator.config import NodeConfig, ServerLimits, SessionLimits, load_node
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome, Run
from coordinator.core.watch import Holding
from coordinator.feed_messages import Changes, Current
from coordinator.loads import Load
from coordinator.node import Node
from coordinator.raft.counters import Counters
from coordinator.rpc.port import ClientPort
from coordinator.submission import Submission
from coordinator.waits import Wait
from raftbatch.errors import NoLeader, RaftbatchError
from raftbatch.kinds import OutcomeKind
from raftbatch.realworld import RealFiles
from tests.e2e.cluster import free_ports

LIMIT_S = 60.0

RUN = Run(5, 1, 7, "gpu-1", 3, 10, 20, 30, 40, (8, 16), b"fingerprint")


def outcome(request_id: str, result: bytes = b"", kind: OutcomeKind = OutcomeKind.OK) -> Outcome:
    """Return an outcome of a request of the default tenant, whose ticket is 2."""
    code, message = ("", "") if kind is OutcomeKind.OK else ("broken", "it broke")
    name = f"default\0{request_id}"
    return Outcome(name, 1, 2, b"", kind, code, message, result, 99, 9, RUN, True)


class ScriptedTail:
    """A feed that says what the test puts into it.

    Attributes:
        messages: what it says next; an error ends it.
        is_closed: whether its reader let go of it.
    """

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Current | Changes | RaftbatchError] = asyncio.Queue()
        self.is_closed = asyncio.Event()

    async def next(self) -> Current | Changes:
        """Return the next message."""
        message = await self.messages.get()
        if isinstance(message, RaftbatchError):
            raise message
        return message

    def close(self) -> None:
        """Note it."""
        self.is_closed.set()


class ScriptedApi:
    """An api that tickets everything, and tells an outcome when the test says so.

    Attributes:
        submitted: all that was asked for.
        answers: what a request of an id is answered with instead of a ticket.
        known: outcomes by id.
        is_open: submits and finds wait while this is not set.
        error: raised by all calls but those that watch; None: none is.
        outcome_error: raised by waits for outcomes alone.
        watching: who waits, by id.
        unwatched: how many waited no more.
        grown: set whenever something was asked for.
        heard: what executors asked, in order.
        loads: of their heartbeats.
        tails: opened.
        asked: names in cancels and acknowledgements.
        is_leading: whether the node leads.
        applied: ids that it knows, though they were not asked for here.
    """

    def __init__(self) -> None:
        self.submitted: list[Submission] = []
        self.loads: list[Load | None] = []
        self.answers: dict[str, RaftbatchError] = {}
        self.known: dict[str, Outcome] = {}
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.error: Exception | None = None
        self.outcome_error: RaftbatchError | None = None
        self.watching: dict[str, list[Callable[[Outcome | RaftbatchError], None]]] = {}
        self.unwatched = 0
        self.grown = asyncio.Event()
        self.heard: list[Any] = []
        self.tails: list[ScriptedTail] = []
        self.asked: list[tuple[str, str]] = []
        self.is_leading = True
        self.applied: set[str] = set()

    # What the services call.

    async def submit(self, submissions: Sequence[Submission]) -> list[Ticket | RaftbatchError]:
        """Take them in."""
        self.submitted += submissions
        self._grow()
        await self.is_open.wait()
        self._check()
        return [
            self.answers.get(each.request_id) or Ticket(each.request_id, 2) for each in submissions
        ]

    async def outcome(
        self, tenant: str, request_id: str, *, index: int = 0, timeout_ms: int
    ) -> Outcome | Waiting:
        """Return what is known."""
        self.heard.append((tenant, request_id, index, timeout_ms))
        self._grow()
        await self.is_open.wait()
        self._check()
        if self.outcome_error is not None:
            raise self.outcome_error
        return self.known.get(request_id) or Waiting(Ticket(request_id, 2))

    async def find(self, tenant: str, request_id: str, index: int) -> None:
        """Return once it is known."""
        self.heard.append((tenant, request_id, index))
        self._grow()
        await self.is_open.wait()
        self._check()
        self.applied.add(request_id)

    def watch(
        self, tenant: str, request_id: str, told: Callable[[Outcome | RaftbatchError], None]
    ) -> Wait | None:
        """Note who waits."""
        if request_id in self.known:
            told(self.known[request_id])
            return None
        is_taken = any(each.request_id == request_id for each in self.submitted)
        if not is_taken and request_id not in self.applied:
            raise NoLeader("it is not known")
        self.watching.setdefault(request_id, []).append(told)
        self._grow()
        return Wait(f"{tenant}\0{request_id}", 1)

    def unwatch(self, wait: Wait) -> None:
        """Note who waits no more."""
        self.watching.pop(wait.name.partition("\0")[2], None)
        self.unwatched += 1
        self._grow()

    def is_awaited(self, _tenant: str, request_id: str) -> bool:
        """Return whether somebody watches it."""
        return request_id in self.watching

    async def cancel(self, names: Sequence[tuple[str, str]]) -> list[Verdict | RaftbatchError]:
        """Cancel all."""
        self.asked += names
        self._grow()
        self._check()
        return [Verdict.OK] * len(names)

    async def acknowledge(self, names: Sequence[tuple[str, str]]) -> list[Verdict | RaftbatchError]:
        """Answer each as the test wants."""
        self.asked += names
        self._check()
        return [self.answers.get(request_id) or Verdict.OK for _, request_id in names]

    async def join(self, record: object) -> int:
        """Let it join."""
        await self._hear(record)
        return 77

    async def _hear(self, record: object) -> None:
        self._check()
        self.heard.append(record)

    ready = drain = leave = report = _hear

    def heartbeat(
        self,
        executor: str,
        incarnation: int,
        tailed_index: int,
        holdings: Sequence[Holding],
        load: Load | None,
    ) -> None:
        """Hear it."""
        self._check()
        self.loads.append(load)
        self.heard.append((executor, incarnation, tailed_index, list(holdings)))

    async def tail(
        self, executor: str, incarnation: int, held: Sequence[tuple[int, int]], seen_index: int
    ) -> ScriptedTail:
        """Open one."""
        self._check()
        self.heard.append((executor, incarnation, list(held), seen_index))
        self.tails.append(ScriptedTail())
        self._grow()
        return self.tails[-1]

    # What the test does.

    def end(self, request_id: str, result: Outcome | RaftbatchError) -> None:
        """Tell those who wait."""
        for told in self.watching.pop(request_id, []):
            told(result)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that calls bring about."""
        while not holds():
            self.grown.clear()
            await self.grown.wait()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _grow(self) -> None:
        self.grown.set()


class ScriptedNode(Node):
    """A node with that api.

    Attributes:
        scripted: it.
        leads: who leads, and where that is; empty: nobody.
    """

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config, Counters())
        self.scripted = ScriptedApi()
        self.leads: tuple[str, str] = ("", "")
        self._watching: list[Callable[[], None]] = []

    @property
    def leader(self) -> str:
        """Who leads, as the test says."""
        return self.leads[0]

    def client_address(self, node: str | None) -> str:
        """Return where the leader is, as the test says; others are where they are."""
        return self.leads[1] if node and node == self.leads[0] else super().client_address(node)

    def watch_leader(self, told: Callable[[], None]) -> None:
        """Note who is to be told."""
        self._watching.append(told)

    def turn_to(self, leader: str, address: str) -> None:
        """Let another node lead."""
        self.leads = (leader, address)
        for told in self._watching:
            told()

    @property
    def api(self) -> Api:
        """It, whatever phase the node is in."""
        return cast("Api", self.scripted)


Test = Callable[[ScriptedNode, grpc.aio.Channel], Coroutine[Any, Any, None]]


def configured(folder: Path, *, replica: str = "scheduler") -> NodeConfig:
    """Return what n1 of two nodes is told, on free ports; n2 is nowhere."""
    peer, client, other = free_ports(3)
    path = folder / "cluster.toml"
    path.write_text(
        f'[cluster]\nname = "t"\nreplica = "{replica}"\n[nodes.n1]\npeer = "127.0.0.1:{peer}"\n'
        f'client = "127.0.0.1:{client}"\n[nodes.n2]\npeer = "127.0.0.1:1"\n'
        f'client = "127.0.0.1:{other}"\n',
        encoding="utf-8",
    )
    return load_node(RealFiles(), str(path), "n1")


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[grpc.aio.Channel]:
    """Open a node's client port; yield a channel to it."""
    port = ClientPort(node, None)
    await port.open()
    try:
        async with grpc.aio.insecure_channel(node.config.addresses.client) as channel:
            async with asyncio.timeout(LIMIT_S):
                yield channel
    finally:
        await port.close(0.0)


def run(
    folder: Path,
    test: Test,
    sessions: SessionLimits | None = None,
    server: ServerLimits | None = None,
) -> None:
    """Run a test against an open client port, and see that it leaves nothing behind.

    Raises:
        TimeoutError: a session is left, or somebody still waits.
    """
    config = configured(folder)
    config = dataclasses.replace(
        config, sessions=sessions or config.sessions, server=server or config.server
    )

    async def main() -> None:
        node = ScriptedNode(config)
        async with serving(node) as channel:
            await test(node, channel)
        # What gRPC cancelled ends within a few turns of the loop.
        async with asyncio.timeout(LIMIT_S):
            while node.on_stopping or node.scripted.watching:  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0)

    asyncio.run(main())
