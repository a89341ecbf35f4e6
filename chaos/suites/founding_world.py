"""Nodes that start for the first time, on simulated disks, and the questions between them.

What lives here: machines, processes that run `coordinator.starting`, and a network
of questions with delays, cuts and lost answers. What must never live here: what
must hold (`chaos.suites.founding_checks`), or when faults come. Called by:
`chaos.suites.founding`, tests of founding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from chaos.suites.journal_run import LIMITS
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.names import Directory, find
from chaos.worlds.sim import Machine, SimNode
from coordinator.raft.about import NOTHING, About
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.greeting import Join, Joined, Reply, Request
from coordinator.raft.membership import Membership
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import segment_seq
from coordinator.raft.snapshots import SnapshotLimits
from coordinator.starting import Mode, Starting, answer_born
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId

DIRECTORY = "/data"
REQUEST_TIMEOUT_S = 2.0
STORAGE = StorageLimits(
    journal=LIMITS,
    snapshots=SnapshotLimits(snapshot_bytes_max=LIMITS.snapshot_bytes_max),
    retention=RetentionLimits(log_retention_bytes=0, log_retention_ms=0, trailing_entries=0),
)


class Witness(Protocol):
    """Sees all that happens, as nobody in the real world does."""

    def drawn(self, node: NodeId, disk: int, token: bytes) -> None:
        """A process on that disk drew random bytes."""
        ...

    def answered(self, node: NodeId, request: Request, reply: Reply) -> None:
        """A node gave an answer, which may be lost on its way."""
        ...

    def asked(self, node: NodeId, request: Request) -> None:
        """A node asked a question."""
        ...

    def born(self, node: NodeId, identity: Identity) -> None:
        """A node's directory was made."""
        ...

    def wiped(self, node: NodeId) -> None:
        """A node's disk was replaced by an empty one."""
        ...

    def ended(self, node: NodeId, error: Fatal) -> None:
        """A node gave up, and said why."""
        ...


@dataclass
class Seat:
    """One configured node: its machine, and its process while it lives.

    Attributes:
        machine: where it lives; another after its disk was wiped.
        disk: how many disks it has had.
        founders: the members in its own configuration.
        mode: its flag.
        about: what else its configuration says that the others' must say too.
        starting: what runs; None where nothing does.
        is_serving: whether its directory is a node's, and the process runs on.
        waited: what was last told of whom it waits for.
        failure: why the last process gave up.
    """

    machine: Machine
    founders: Membership
    mode: Mode = Mode.BOOTSTRAP
    about: About = NOTHING
    disk: int = 1
    starting: Starting | None = None
    is_serving: bool = False
    waited: list[str] = field(default_factory=list)
    failure: Fatal | None = None


class FoundingWorld:
    """See the module's docstring.

    Args:
        loop: of the run.
        seed: of the run.
        founders: the members in everybody's configuration, but where a test changes one's.
        witness: sees all.

    Attributes:
        seats: by node.
        cut: pairs between which nothing passes, either way.
        delay_s: a message's time on its way, one way.
        late_chance: of 1, that it takes up to ten seconds.
    """

    def __init__(
        self, loop: VirtualLoop, seed: int, founders: Membership, witness: Witness
    ) -> None:
        self.loop = loop
        self.cut: set[frozenset[NodeId]] = set()
        self.delay_s = (0.0002, 0.002)
        self.late_chance = 0.0
        self.seats: dict[NodeId, Seat] = {}
        self._seed = seed
        self._rng = Random(f"{seed} questions")
        self._witness = witness
        self._attempts: dict[tuple[NodeId, int], Identity] = {}
        self._incarnations: dict[NodeId, int] = {}
        self._by_address = {each.address: each.node_id for each in founders.members}
        for node in founders.voters:
            self.seats[node] = Seat(self._machine(node, 1), founders)

    # What a nemesis does.

    def start(self, node: NodeId) -> None:
        """Begin a process on a node's machine, which must be down."""
        seat = self.seats[node]
        world = seat.machine.boot()
        world.call(self._begin, node, world)

    def kill(self, node: NodeId, power: bool) -> None:
        """End it, if it runs."""
        self.seats[node].machine.kill(power)

    def wipe(self, node: NodeId) -> None:
        """Replace the disk by an empty one; the process must be down."""
        seat = self.seats[node]
        assert not self.is_up(node)
        seat.disk += 1
        seat.machine = self._machine(node, seat.disk)
        self._witness.wiped(node)

    def is_up(self, node: NodeId) -> bool:
        """Whether a process runs there."""
        world = self.seats[node].machine.node
        return world is not None and world.alive

    def identity(self, node: NodeId) -> Identity | None:
        """Return whose directory a disk holds, as a process that reads it now would see it."""
        seat = self.seats[node]
        try:
            found = find(seat.machine.disk.root, f"{DIRECTORY}/journal")[2]
        except FileNotFoundError:
            return None
        if not isinstance(found, Directory) or not any(
            segment_seq(name) is not None for name in found.names
        ):
            return None
        return self._attempts[node, seat.disk]

    # The product, as a process.

    def _begin(self, node: NodeId, world: SimNode) -> None:
        seat = self.seats[node]
        seat.is_serving, seat.failure = False, None
        draw = world.entropy.random_bytes

        def drawn(length: int) -> bytes:
            data = draw(length)
            self._witness.drawn(node, seat.disk, data)
            return data

        def create(identity: Identity, founders: Membership | None) -> None:
            self._attempts[node, seat.disk] = identity
            DataDirectory.create(world, DIRECTORY, identity, STORAGE, founders)
            self._witness.born(node, identity)

        def tell(event: str, fields: Mapping[str, object]) -> None:
            if event == "node.waited":
                seat.waited.append(f"{fields['for']}: {fields['why']}")

        async def ask(address: str, request: Request, _node: NodeId | None) -> Reply:
            self._witness.asked(node, request)
            asked = self._by_address.get(address)
            if asked is None:
                raise ConnectionRefusedError("connection refused")
            return await self._ask(node, asked, request)

        async def run(starting: Starting) -> None:
            try:
                await starting.run()
                seat.is_serving = True
            except Fatal as error:
                seat.failure = error
                self._witness.ended(node, error)
                world.exit(str(error))

        world.entropy.random_bytes = drawn  # type: ignore[method-assign]
        try:
            starting = Starting(
                world, DIRECTORY, node, seat.founders, create, seat.mode, ask, tell, seat.about
            )
        except Fatal as error:
            seat.failure = error
            self._witness.ended(node, error)
            world.exit(str(error))
        seat.starting = starting
        self.loop.create_task(run(starting))

    # Questions.

    async def _ask(self, asker: NodeId, asked: NodeId, request: Request) -> Reply:
        """Carry a question there and its answer back; runs as the asker's process."""
        answer: asyncio.Future[Reply] = self.loop.create_future()
        self._carry(asker, asked, lambda: self._deliver(asker, asked, request, answer))
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise TimeoutError("no answer within 2 s") from None

    def _carry(self, one: NodeId, other: NodeId, arrive: Callable[[], None]) -> None:
        """Let something arrive after a while, also when its sender is dead by then."""

        def at_the_end() -> None:
            if frozenset((one, other)) not in self.cut:
                arrive()

        is_late = self._rng.random() < self.late_chance
        delay_s = self._rng.uniform(*((0.0, 10.0) if is_late else self.delay_s))
        self.loop.after(delay_s, at_the_end)

    def _deliver(
        self, asker: NodeId, asked: NodeId, request: Request, answer: asyncio.Future[Reply]
    ) -> None:
        world = self.seats[asked].machine.node
        if world is None or not world.alive:

            def refuse() -> None:
                if not answer.done():
                    answer.set_exception(ConnectionRefusedError("connection refused"))

            self._carry(asked, asker, refuse)
            return

        async def reply() -> None:
            found = await self._answer(asked, request)
            self._witness.answered(asked, request, found)

            def arrive() -> None:
                if not answer.done():
                    answer.set_result(found)

            self._carry(asked, asker, arrive)

        world.call(lambda: self.loop.create_task(reply()))

    async def _answer(self, node: NodeId, request: Request) -> Reply:
        """Let a node answer; one that serves lets others join, where a majority serves."""
        seat = self.seats[node]
        assert seat.starting is not None
        identity = self.identity(node)
        if not seat.is_serving or identity is None:
            return await seat.starting.answer(request, None)
        cluster = identity.cluster_id
        can_commit = self.serving(cluster) > len(seat.founders.members) // 2
        if isinstance(request, Join) and can_commit:
            last = self._incarnations.get(request.node_id, 1)
            self._incarnations[request.node_id] = last + 1
            return Joined(cluster, last + 1)
        return answer_born(identity, request)

    def serving(self, cluster: ClusterId) -> int:
        """Return how many nodes serve that cluster."""
        found = [self.identity(node) for node, seat in self.seats.items() if seat.is_serving]
        return sum(each is not None and each.cluster_id == cluster for each in found)

    def _machine(self, node: NodeId, disk: int) -> Machine:
        return Machine(self.loop, self._seed * 1000 + disk, node, self._has_died)

    def _has_died(self, world: SimNode, _why: str, _power: bool) -> None:
        self.seats[NodeId(world.machine.name)].is_serving = False
