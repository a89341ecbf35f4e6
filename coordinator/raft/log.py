"""The replicated log, as the rest of the program sees it: bytes in, bytes out.

    proposal = log.propose(log.term, b"...")     # appended at once, or refused
    await proposal.committed()                   # applied here, durable on a majority
    index = await log.barrier()                  # everything acknowledged before is applied

The state machine is a `Replica`: it is given every committed entry once, in
order, and now and then a snapshot in place of the entries before it. What it
raises stops the node: a replica that has missed an entry is not one.

Nodes are added, promoted and removed while it runs, one change at a time. A
node that is a member no more ends with `Removed`.

What lives here: what the log can be asked, and what peers tell it. What must
never live here: a rule of Raft, what follows from an event (`driver`), or what
the bytes mean. Called by: the replica's owner, the transport. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from coordinator.raft.applying import Replica
from coordinator.raft.changes import Add, Change, Move, Promote, Remove
from coordinator.raft.datadir import StorageLimits
from coordinator.raft.driver import Driver
from coordinator.raft.log_config import LogConfig
from coordinator.raft.membership import Member, Membership, Rank, removed
from coordinator.raft.messages import Digests, PeerMessage
from coordinator.raft.ports import Peers
from coordinator.raft.progress import Progress
from coordinator.raft.proposals import Proposal
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import Space
from coordinator.raft.segments.writer import Disk
from coordinator.raft.standing import Role
from raftbatch.errors import Fatal, NotLeader
from raftbatch.ids import Identity, NodeId
from raftbatch.world import World

__all__ = ["LogConfig", "Peers", "ReplicatedLog"]


class ReplicatedLog:
    """See the module's docstring. Opening it reads the journal: it blocks, at start-up.

    Args:
        world: the ports.
        directory: a data directory that was created.
        limits: its bounds.
        peers: the way to the others.
        replica: the state machine, empty.
        config: settings.
        on_failed: told once why the node must stop.

    Raises:
        Corrupt, CannotStart, DiskFailed: see `DataDirectory.open`.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        limits: StorageLimits,
        peers: Peers,
        replica: Replica,
        config: LogConfig,
        on_failed: Callable[[Fatal], None],
    ) -> None:
        self._driver = Driver(world, directory, limits, peers, replica, config, on_failed)
        self._core = self._driver.core

    # What it is.

    @property
    def failure(self) -> Fatal | None:
        """Why the log has ended; None while it lives."""
        return self._driver.failure

    @property
    def identity(self) -> Identity:
        """Whose log it is."""
        return self._driver.data.identity

    @property
    def membership(self) -> Membership:
        """Who belongs to the cluster: the newest that is in the log, committed or not."""
        return self._core.standing.membership

    @property
    def role(self) -> Role:
        """This node's role."""
        return self._core.standing.role

    @property
    def term(self) -> int:
        """The current term."""
        return self._core.standing.term

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as this node knows; perhaps itself."""
        return self._core.standing.leader

    @property
    def commit(self) -> int:
        """Highest index known committed."""
        return self._core.standing.commit

    @property
    def heard_commit(self) -> int:
        """Highest index that is committed by the leader's word, here or not yet."""
        return max(self._core.standing.commit, self._core.appending.heard)

    @property
    def last_index(self) -> int:
        """Index of the newest entry here, committed or not."""
        return self._driver.journal.last_index

    @property
    def applied(self) -> int:
        """Index of the last entry whose effects the replica has."""
        return self._driver.applying.index

    @property
    def is_caught_up(self) -> bool:
        """Whether this node leads, and all that its log held when its term began is applied."""
        return self._driver.is_caught_up

    @property
    def space(self) -> Space:
        """How much room the disk has left."""
        return self._driver.journal.space

    @property
    def disk(self) -> Disk:
        """What the writing thread has seen of the disk."""
        return self._driver.journal.disk

    @property
    def followers(self) -> dict[NodeId, Progress]:
        """What this node believes of each other member while it leads; else nothing."""
        leading = self._core.replication
        return {} if leading is None else dict(leading.followers.members)

    def watch(self, told: Callable[[], None]) -> None:
        """Call back whenever role, term, leader or `is_caught_up` has changed, and at the end.

        On the loop, when what follows from the change is under way; it may propose.
        """
        self._driver.watchers.add(told)

    # Beside the log: replicas that tell each other what they are.

    def hear(self, told: Callable[[NodeId, Digests], None], came: Callable[[NodeId], None]) -> None:
        """Say who takes in the digests that members tell, and that somebody has connected.

        Both are called on the loop; a `Fatal` that they raise stops the node.
        """
        self._driver.on_digests, self._driver.on_came = told, came

    def tell(self, peer: NodeId, digests: Digests) -> None:
        """Tell a peer of this node's replica; it is dropped where there is no connection."""
        if self._driver.failure is None:
            self._driver.peers.send(peer, digests)

    # What it does.

    def propose(self, term: int, data: bytes) -> Proposal:
        """Append an entry in a term that this node leads.

        Raises:
            NotLeader, NoLeader, Draining, NoSpace, Overloaded, PayloadTooLarge: definite.
            Fatal: the log has ended.
        """
        driver = self._driver
        driver.check_lives()
        return driver.proposed(self._core.propose(driver.now_ns(), term, data), term)

    async def barrier(self) -> int:
        """Return the applied index once all that was acknowledged before the call is applied.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead, or lost the lead meanwhile.
            Fatal: the log has ended.
        """
        driver = self._driver
        driver.check_lives()
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def answer(index: int | None) -> None:
            if found.done():
                return
            if index is None:
                found.set_exception(NotLeader("this node leads no more", leader=self.leader or ""))
            else:
                driver.barriers.append((index, found))
                driver.pump_soon()

        self._core.read(driver.now_ns(), answer)
        driver.pump_soon()
        return await found

    async def transfer(self, heir: NodeId) -> bool:
        """Hand leadership to another voter; return whether this node leads no more.

        Raises:
            NotLeader, NoLeader, InvalidRequest: definite; this node does not lead, or the heir
                is no other voter.
            Fatal: the log has ended.
        """
        driver = self._driver
        driver.check_lives()
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._core.hand_over(
            driver.now_ns(), heir, lambda moved: None if ended.done() else ended.set_result(moved)
        )
        driver.pump_soon()
        return await ended

    async def synced(self) -> None:
        """Return once all that this node has appended is durable here, or the log has ended.

        Other nodes need that for nothing: but one that is stopped would have to be sent it again.
        """
        driver = self._driver
        if driver.failure is None and driver.journal.durable < driver.journal.lsn:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            driver.syncing.append((driver.journal.lsn, ended))
            driver.pump_soon()
            await ended

    # What is to be read of it.

    @property
    def first_index(self) -> int:
        """Index of the oldest entry that is there; one above `last_index` where none is."""
        return self._driver.journal.first_index

    async def entries(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return applied entries from an index on, until they reach so many bytes.

        At least one, however large; none where that index is not applied yet.

        Raises:
            Compacted: definite; it is not in the log any more.
            Overloaded: definite; no descriptor is free.
            Fatal: the log has ended.
        """
        self._driver.check_lives()
        journal, applied = self._driver.journal, self.applied
        if first > applied:
            return ()
        found = journal.tail(first, bytes_max) if first >= journal.first_index else ()
        if not found:
            read: asyncio.Future[tuple[Entry, ...]] = asyncio.get_running_loop().create_future()

            def has_read(done: Future[tuple[Entry, ...]]) -> None:
                if read.done():  # whoever asked has gone
                    return
                error = done.exception()
                if error is not None:
                    read.set_exception(error)
                else:
                    read.set_result(done.result())

            journal.read(first, bytes_max, has_read)
            found = await read
        return tuple(entry for entry in found if entry.index <= applied)

    async def reached(self, index: int) -> None:
        """Return once the entry at an index is applied.

        Raises:
            OutcomeUnknown: the log has ended before.
            Fatal: it had ended already.
        """
        driver = self._driver
        driver.check_lives()
        if index <= self.applied:
            return
        reached: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = (index, reached)
        driver.barriers.append(waiting)
        try:
            await reached
        finally:
            if waiting in driver.barriers:  # who asked has gone
                driver.barriers.remove(waiting)

    def fail(self, error: Fatal) -> None:
        """End, and stop the node, for a reason that whoever acts on the log has found."""
        self._driver.fail(error)

    def close(self) -> None:
        """End, like a crash but for the files; what was proposed is unknown then."""
        self._driver.close()

    # Changes of the membership.

    async def add(self, node: NodeId, address: str, rank: Rank) -> Member:
        """Add a node under a new incarnation, in place of an earlier one.

        Args:
            node: whom.
            address: where other coordinators reach it, `host:port`.
            rank: JOINING becomes a voter once it has caught up; LEARNER stays one.

        Returns:
            the member, once it is one for good.

        Raises:
            NotLeader, NoLeader, Draining: definite; this node does not lead, or is about to
                lead no more. The same of every change, as are all below.
            InvalidRequest: definite; there can be no such change.
            Overloaded: definite; another change is under way, or the node is not ready.
            NoSpace: definite.
            OutcomeUnknown: look at the leader's `membership` later.
            Fatal: the log has ended.
        """
        proposal = self._change(Add(node, address, rank))
        member = self.membership.get(node)
        assert member is not None
        await proposal.committed()
        return member

    async def promote(self, node: NodeId) -> None:
        """Let a learner that has caught up vote. Raises: see `add`."""
        await self._change(Promote(node)).committed()

    async def remove(self, node: NodeId) -> None:
        """Remove a member, perhaps this node. Raises: see `add`."""
        await self._change(Remove(node)).committed()

    async def move(self, node: NodeId, address: str) -> None:
        """Note another address of a member. Raises: see `add`."""
        await self._change(Move(node, address)).committed()

    def _change(self, change: Change) -> Proposal:
        """Make a change."""
        driver = self._driver
        driver.check_lives()
        return driver.proposed(self._core.change(driver.now_ns(), change), self.term)

    # What peers do.

    def admits(self, node: NodeId, incarnation: int) -> str | None:
        """Return why a connection of that life of that node must be refused; None if it need not.

        Because it was replaced or removed, and that is committed. A node that is not known
        is no stranger: this one may be behind.
        """
        return self._core.standing.committed_membership.why_over(node, incarnation)

    def receive(self, peer: NodeId, message: PeerMessage) -> None:
        """Take in a message from a peer's present connection."""
        driver = self._driver
        if isinstance(message, Digests):
            driver.event(lambda: driver.heard(peer, message))
        else:
            driver.message(lambda: driver.transport.arrived(peer, message))

    def connected(self, peer: NodeId, incarnation: int) -> None:
        """Take in that there is a new connection to a peer, and to which life of it."""
        self._driver.event(lambda: self._driver.came(peer, incarnation))

    def disconnected(self, peer: NodeId) -> None:
        """Take in that the connection to a peer broke."""
        self._driver.event(lambda: self._driver.transport.went(peer))

    def refused(self, peer: NodeId, why: str) -> None:
        """Take in that a peer does not admit this life of this node (`admits`): it ends.

        A node that was down while it was removed hears of it in no other way. What a peer
        refuses for that reason is committed.
        """
        self._driver.fail(removed(f"{why} ({peer} says so)"))
