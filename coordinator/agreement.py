"""Whether this node's replica is what the others' are: their digests, compared at the same indexes.

    an entry is applied -> at each milestone, index and digest are kept, and told to the members
    a member tells its own -> held against ours at the same index

Milestones are where the log says: at the first entry with records at or past each
multiple of `EVERY`. The digest rolls on over all that was ever applied, so that
replicas which differ once differ at every milestone from then on: what is lost on its way
is made up for by the next, and nothing is kept but the last milestones.

A node that a majority of the voters contradicts is the one that erred. From that
moment it answers nobody out of its state; where it leads it hands over; then it
stops. Where no majority can agree any more, nobody knows who erred, and whoever sees
that stops. Where it depends on voters that are silent, they have `DOUBT_S` to decide.

What lives here: that. What must never live here: what a digest is made of
(`coordinator.core.digest`), or what else a node does at its end. Called by: the
replica, as its first listener; the log, with what members tell. One thread: the
loop's. Task: the hand-over of a leader that erred.

Source: docs/adr/0009-replicas-compare-digests.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.effects import Applied
from coordinator.raft.membership import Membership
from coordinator.raft.messages import DIGESTS_MAX, Digests
from coordinator.raft.progress import Progress
from coordinator.raft.standing import Role
from coordinator.replica import Replica
from raftbatch.errors import Diverged, Fatal, RaftbatchError
from raftbatch.ids import Identity, NodeId
from raftbatch.logs import fields
from raftbatch.records import Entry

_LOG = logging.getLogger(__name__)

EVERY = 32
"""Indexes from one milestone to the next: a message of some 40 bytes to each member."""

_KEPT_MAX = 64
"""Milestones that are kept of each replica: one that is 2,000 entries behind is still compared."""

DOUBT_S = 30.0
"""How long a difference may stand that only silent voters could decide: a node's restart."""

_HAND_OVER_S = 2.0


class Log(Protocol):
    """What is needed of a `ReplicatedLog`; see there."""

    @property
    def identity(self) -> Identity:
        """Whose log it is."""
        ...

    @property
    def role(self) -> Role:
        """This node's role."""
        ...

    @property
    def membership(self) -> Membership:
        """Who belongs to the cluster."""
        ...

    @property
    def followers(self) -> dict[NodeId, Progress]:
        """What this node believes of each other member while it leads."""
        ...

    def tell(self, peer: NodeId, digests: Digests) -> None:
        """Tell a peer of this node's replica, if it is connected."""
        ...

    async def transfer(self, heir: NodeId) -> bool:
        """Hand leadership over; return whether this node leads no more."""
        ...

    def fail(self, error: Fatal) -> None:
        """End, and stop the node for that reason."""
        ...


@dataclass(slots=True)
class AgreementCounts:
    """What was compared.

    Attributes:
        milestones_total: of this node's replica.
        agreed_total: milestones at which it was found to be what a majority of the voters has.
        differing_total: members that a majority, and this node with it, has contradicted.
        doubts_total: differences that only silent voters could decide.
    """

    milestones_total: int = 0
    agreed_total: int = 0
    differing_total: int = 0
    doubts_total: int = 0


class Agreement:
    """See the module's docstring. A `replica.Listener`.

    Args:
        log: the replicated log.
        replica: the state that it drives.
        directory: of this node's data, for what is said at its end.
        retire: called once this node must answer nobody any more.

    Attributes:
        counts: what was compared.
        is_over: whether this node has found that it must not go on.
    """

    def __init__(
        self, log: Log, replica: Replica, directory: str, retire: Callable[[], None]
    ) -> None:
        self.counts = AgreementCounts()
        self.is_over = False
        self._log = log
        self._replica = replica
        self._directory = directory
        self._retire = retire
        self._self = log.identity.node_id
        self._last = replica.state.index
        self._own: dict[int, bytes] = {}
        self._theirs: dict[NodeId, dict[int, bytes]] = {}
        self._agreed_index = 0
        self._blamed: dict[NodeId, None] = {}
        self._doubt: asyncio.TimerHandle | None = None
        self._doubted_index = 0
        self._handing: asyncio.Task[None] | None = None

    # As a listener of the replica.

    def applied(
        self,
        index: int,
        _term: int,
        _entry: Entry,
        _applied: Applied,
    ) -> None:
        """Keep, tell and compare the digest, where the entry stands at a milestone.

        Raises:
            Diverged: see `heard`.
        """
        before, self._last = self._last, index
        if self.is_over or index // EVERY == before // EVERY:
            return
        digest = self._own[index] = self._replica.state.digest
        _keep_last(self._own)
        self.counts.milestones_total += 1
        told = Digests(((index, digest),))
        for member in self._log.membership.members:
            if member.node_id != self._self:
                self._log.tell(member.node_id, told)
        self._judge(index)

    def installed(self) -> None:
        """Go on from the snapshot: what this node was before is of no account."""
        self._last = self._replica.state.index
        self._own.clear()
        self._end_doubt()

    # What members tell.

    def came(self, peer: NodeId) -> None:
        """Tell a member that has connected the last milestones; what it told before is over.

        Also what it told in a life that the membership knows, where it has begun another.
        """
        self._theirs.pop(peer, None)
        self._blamed.pop(peer, None)
        milestones = tuple(self._own.items())[-DIGESTS_MAX:]
        is_member = self._log.membership.get(peer) is not None
        if milestones and is_member and not self.is_over:
            self._log.tell(peer, Digests(milestones))

    def heard(self, peer: NodeId, digests: Digests) -> None:
        """Compare what a member has.

        Raises:
            Diverged: this node's replica is not what a majority has, or nobody can say who
                is right. Not where it leads: it hands over first, and fails the log then.
        """
        for gone in [each for each in self._theirs if self._log.membership.get(each) is None]:
            del self._theirs[gone]
        theirs = self._theirs.setdefault(peer, {})
        theirs.update(digests.pairs)
        _keep_last(theirs)
        for index, _ in digests.pairs:
            self._judge(index)

    def close(self) -> None:
        """Wait for nothing any more."""
        self._end_doubt()
        if self._handing is not None:
            self._handing.cancel()

    # Judging.

    def _judge(self, index: int) -> None:
        """Hold this node's digest at an index against all that are known there."""
        own = self._own.get(index)
        if own is None or self.is_over:
            return
        voters = self._log.membership.voters
        told = {self._self: own}
        told |= {node: kept[index] for node, kept in self._theirs.items() if index in kept}
        votes = {node: digest for node, digest in told.items() if node in voters}
        ((most, count),) = Counter(votes.values()).most_common(1) or [(own, 0)]
        quorum = len(voters) // 2 + 1
        others = {node: digest for node, digest in told.items() if digest != own}
        if count >= quorum and most != own:
            self._stop(self._contradicted(index, own, most, votes), most)
        elif count >= quorum or index <= self._agreed_index:
            self._agreed(index, others)  # at the latter too: digests roll on
        elif others and count + len(voters) - len(votes) < quorum:
            self._stop(self._undecided(index, told, "no majority of the voters agrees"), None)
        elif any(node in votes for node in others):
            self._begin_doubt(index, told)

    def _agreed(self, index: int, others: dict[NodeId, bytes]) -> None:
        """Take in that a majority has what this node has; and that some have not."""
        if index > self._agreed_index:
            self._agreed_index = index
            self.counts.agreed_total += 1
            if index >= self._doubted_index:
                self._end_doubt()
        for node in others:
            if node not in self._blamed:
                self._blamed[node] = None
                self.counts.differing_total += 1
                _LOG.error("digest.differs", extra=fields(peer=node, index=index))

    def _begin_doubt(self, index: int, told: dict[NodeId, bytes]) -> None:
        """Give those who are silent some time to say who is right."""
        if self._doubt is not None:
            return
        self._doubted_index = index
        self.counts.doubts_total += 1
        _LOG.warning("digest.doubted", extra=fields(index=index, digests=_listed(told)))
        error = self._undecided(
            index, told, f"too few voters have said within {DOUBT_S:.0f} s what they have"
        )
        loop = asyncio.get_running_loop()
        self._doubt = loop.call_later(DOUBT_S, self._run_out, error)

    def _end_doubt(self) -> None:
        if self._doubt is not None:
            self._doubt.cancel()
            self._doubt = None

    def _run_out(self, error: Diverged) -> None:
        self._doubt = None
        try:
            self._stop(error, None)
        except Diverged as raised:
            self._log.fail(raised)

    # The end.

    def _stop(self, error: Diverged, right: bytes | None) -> None:
        """Answer nobody from now on; end, or hand over first to one that has what is right."""
        self.is_over = True
        self._end_doubt()
        _LOG.critical("digest.erred", extra=fields(node=self._self, why=str(error)))
        self._retire()
        heirs = [] if right is None else self._heirs(right)
        if not heirs:
            raise error
        self._handing = asyncio.get_running_loop().create_task(self._hand_over(heirs, error))

    def _heirs(self, right: bytes) -> list[NodeId]:
        """Return who could lead in this node's place, those that hold most first."""
        log = self._log
        if log.role is not Role.LEADER:
            return []
        voters = log.membership.voters
        able = [
            (-progress.match, node)
            for node, progress in log.followers.items()
            if progress.is_connected and node in voters
            if right in self._theirs.get(node, {}).values()
        ]
        return [node for _, node in sorted(able)]

    async def _hand_over(self, heirs: list[NodeId], error: Diverged) -> None:
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                for heir in heirs:
                    if await self._log.transfer(heir):
                        _LOG.info("leadership.moved", extra=fields(to=heir))
                        break
        except (TimeoutError, RaftbatchError, Fatal) as kept:
            _LOG.warning("leadership.kept", extra=fields(why=str(kept)))
        self._log.fail(error)

    # Words.

    def _contradicted(
        self, index: int, own: bytes, most: bytes, votes: dict[NodeId, bytes]
    ) -> Diverged:
        right = ", ".join(sorted(node for node, digest in votes.items() if digest == most))
        return Diverged(
            f"at index {index} the digest of {self._self} is {own.hex()}, and that of {right}, a "
            f"majority of the voters, is {most.hex()}: this node has applied something otherwise, "
            f"and must not answer. Keep a copy of {self._directory} for a bug report; then empty "
            f"it, and start {self._self} with --join"
        )

    def _undecided(self, index: int, told: dict[NodeId, bytes], why: str) -> Diverged:
        return Diverged(
            f"at index {index} digests differ, and {why}: {_listed(told)}. Nobody can say who is "
            f"right, and so this node must not answer. Keep a copy of {self._directory}, and of "
            "the other voters', for a bug report; then start all voters again: they apply their "
            "logs anew, and those that erred stop once a majority agrees"
        )


def _keep_last(milestones: dict[int, bytes]) -> None:
    """Drop the oldest milestones beyond what is kept."""
    while len(milestones) > _KEPT_MAX:
        del milestones[min(milestones)]


def _listed(told: dict[NodeId, bytes]) -> str:
    return ", ".join(f"{node} has {digest.hex()}" for node, digest in sorted(told.items()))
