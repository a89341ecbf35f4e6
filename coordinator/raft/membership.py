"""Who belongs to the cluster, and the one change at a time that makes another membership of it.

A membership is a value of the log: it stands in an entry, takes effect when that
entry is appended, and ends when the entry is taken back. Each change alters the
set of voters by at most one, so that every majority of the old set and every
majority of the new one share a voter. What lives here: memberships, their
changes, their bytes. What must never live here: when a change may be proposed
(`core`), or who is connected. Called by: `coordinator.raft`, the composition
root. Total, but for `decode`. Deterministic. Source: thesis, 4.1 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import msgpack

from raftbatch.errors import InvalidRequest, Removed
from raftbatch.ids import NodeId, is_address, is_node_id

MEMBERS_MAX = 31
"""More members than any cluster needs, few enough that a message names them all."""

RETIRED_MAX = 512
"""Removed ids that are remembered, so that their next incarnation is a new one.

At most 75 bytes each, and a member 380: with those 31, under the 64 KiB that a
snapshot's header has for its membership.
"""

ADDRESS_BYTES_MAX = 300
_FORMAT = 1
_INCARNATION_MAX = (1 << 63) - 1


class Rank(IntEnum):
    """What a member may do."""

    VOTER = 1
    """It votes, and its copy counts."""
    LEARNER = 2
    """It is fed, and neither votes nor counts."""
    JOINING = 3
    """A learner that becomes a voter once it has caught up."""


@dataclass(frozen=True, slots=True)
class Member:
    """One node of the cluster.

    Attributes:
        node_id: its name.
        incarnation: which life of that node: what an earlier one says counts no more.
        address: where other coordinators reach it, `host:port`.
        rank: what it may do.
    """

    node_id: NodeId
    incarnation: int
    address: str
    rank: Rank

    @property
    def votes(self) -> bool:
        """Whether it votes."""
        return self.rank is Rank.VOTER


@dataclass(frozen=True, slots=True)
class Membership:
    """All members, in the order of their ids, and the last incarnation of those that were removed.

    Raises:
        ValueError: it is none: out of order, too large, or a part not of its form.
    """

    members: tuple[Member, ...] = ()
    retired: tuple[tuple[NodeId, int], ...] = field(default=())

    def __post_init__(self) -> None:
        names = [member.node_id for member in self.members]
        gone = [node for node, _ in self.retired]
        if names != sorted(set(names)) or gone != sorted(set(gone)) or set(names) & set(gone):
            raise ValueError("ids are out of order, or stand twice")
        if len(names) > MEMBERS_MAX or len(gone) > RETIRED_MAX:
            raise ValueError(f"{len(names)} members and {len(gone)} removed are too many")
        lives = [(member.node_id, member.incarnation) for member in self.members]
        for node, incarnation in [*lives, *self.retired]:
            if not is_node_id(node) or not 1 <= incarnation <= _INCARNATION_MAX:
                raise ValueError(f"{node!r} with incarnation {incarnation} is no member")
        for member in self.members:
            if len(member.address) > ADDRESS_BYTES_MAX or not is_address(member.address):
                raise ValueError(f"{member.address!r} is no address: it must be host:port")

    def __str__(self) -> str:
        """Return `n1 n2 n3, learner n4, joining n5`."""
        parts = [" ".join(self.voters) or "no voter"]
        for rank in (Rank.LEARNER, Rank.JOINING):
            names = [member.node_id for member in self.members if member.rank is rank]
            parts += [f"{rank.name.lower()} {' '.join(names)}"] if names else []
        return ", ".join(parts)

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """Who votes."""
        return tuple(member.node_id for member in self.members if member.votes)

    def get(self, node: NodeId) -> Member | None:
        """Return a member; None if it is none."""
        return next((member for member in self.members if member.node_id == node), None)

    def why_over(self, node: NodeId, incarnation: int) -> str | None:
        """Return why that life of a node is over; None where that is not known.

        Once committed it stays so: no later membership has an earlier life in it.
        """
        member = self.get(node)
        if member is not None:
            if incarnation >= member.incarnation:
                return None
            return f"{node} was added again, as incarnation {member.incarnation}"
        removed = next((life for other, life in self.retired if other == node), 0)
        if incarnation > removed:
            return None
        return f"{node} was removed from the cluster, as incarnation {removed}"

    def next_incarnation(self, node: NodeId) -> int:
        """Return the incarnation under which a node would be added: one no life of it had."""
        member = self.get(node)
        return (member.incarnation if member else dict(self.retired).get(node, 0)) + 1

    def rank_of(self, node: NodeId, asked: Rank) -> Rank:
        """Return the rank under which a node joins: who was added as a learner stays one."""
        member = self.get(node)
        return Rank.LEARNER if member is not None and member.rank is Rank.LEARNER else asked

    def added(self, node: NodeId, address: str, rank: Rank) -> Membership:
        """Return it with a new incarnation of a node, which takes the place of an earlier one.

        Raises:
            InvalidRequest: it would be none, or the node would vote at once.
        """
        if rank is Rank.VOTER:
            raise InvalidRequest(f"{node} must catch up as a learner before it votes")
        self._check_left(node)
        member = Member(node, self.next_incarnation(node), address, rank)
        return self._with(node, member, self.retired)

    def promoted(self, node: NodeId) -> Membership:
        """Return it with a learner made a voter.

        Raises:
            InvalidRequest: it is no learner.
        """
        member = self._find(node)
        if member.votes:
            raise InvalidRequest(f"{node} votes already")
        return self._with(node, replace(member, rank=Rank.VOTER), self.retired)

    def removed(self, node: NodeId) -> Membership:
        """Return it without a member.

        Raises:
            InvalidRequest: it is none, or the only voter.
        """
        member = self._find(node)
        self._check_left(node)
        return self._with(node, None, (*self.retired, (node, member.incarnation)))

    def moved(self, node: NodeId, address: str) -> Membership:
        """Return it with a member at another address.

        Raises:
            InvalidRequest: it is no member.
        """
        return self._with(node, replace(self._find(node), address=address), self.retired)

    def _find(self, node: NodeId) -> Member:
        member = self.get(node)
        if member is None:
            raise InvalidRequest(f"{node} is no member: there are {', '.join(self._names())}")
        return member

    def _check_left(self, node: NodeId) -> None:
        """Refuse a change after which nobody would vote."""
        if self.voters == (node,):
            raise InvalidRequest(f"{node} is the only voter")

    def _names(self) -> list[NodeId]:
        return [member.node_id for member in self.members]

    def _with(
        self, node: NodeId, member: Member | None, retired: tuple[tuple[NodeId, int], ...]
    ) -> Membership:
        others = [each for each in self.members if each.node_id != node]
        members = [*others, member] if member else others
        if member:
            retired = tuple(each for each in retired if each[0] != node)
            for other in others:
                if other.address == member.address:
                    raise InvalidRequest(f"{member.address} is {other.node_id}'s address")
        try:
            return Membership(
                tuple(sorted(members, key=lambda each: each.node_id)), tuple(sorted(retired))
            )
        except ValueError as error:
            raise InvalidRequest(str(error)) from None


def founders(addresses: dict[NodeId, str]) -> Membership:
    """Return the first membership of a cluster: voters, each in its first incarnation.

    Raises:
        ValueError: it would be none.
    """
    if not addresses:
        raise ValueError("a cluster needs a voter")
    return Membership(
        tuple(Member(node, 1, addresses[node], Rank.VOTER) for node in sorted(addresses))
    )


def encode(membership: Membership) -> bytes:
    """Return the bytes of a membership: equal memberships have equal bytes."""
    members = [
        [member.node_id, member.incarnation, member.address, int(member.rank)]
        for member in membership.members
    ]
    encoded: bytes = msgpack.packb([_FORMAT, members, [list(each) for each in membership.retired]])
    return encoded


def decode(data: bytes) -> Membership:
    """Read a membership back.

    Raises:
        ValueError: these are the bytes of none, whoever made them.
    """
    try:
        version, members, retired = msgpack.unpackb(
            data, raw=False, max_array_len=RETIRED_MAX, max_map_len=0, max_ext_len=0
        )
        _check(type(version) is int and version == _FORMAT, "of another format")
        found = Membership(
            tuple(_member(*each) for each in members),
            tuple((NodeId(node), _whole(number)) for node, number in retired),
        )
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
        raise ValueError(f"no membership: {error}") from None
    _check(encode(found) == bytes(data), "not in the one form that is written")
    return found


def removed(why: str) -> Removed:
    """Return how a node ends that is a member no more."""
    return Removed(f"{why}: to add it again, empty its directory and start it with --join")


def _member(node: str, incarnation: int, address: str, rank: int) -> Member:
    return Member(NodeId(node), _whole(incarnation), address, Rank(_whole(rank)))


def _whole(number: object) -> int:
    if type(number) is not int:
        raise ValueError(f"{number!r} is no number")
    return number


def _check(holds: bool, wrong: str) -> None:
    if not holds:
        raise ValueError(f"a membership {wrong}")
