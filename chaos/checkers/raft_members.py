"""Who belongs to a simulated cluster, as its logs say: the oracle of memberships.

A membership is in force in a log from the moment its entry is appended until it is
taken back. So much the product must do itself; here it is read off the shadows,
which know every entry of every log.

What lives here: which membership is in force where, and what a change of it must
be like. What must never live here: anything that a message says. Called by:
`chaos.checkers.raft`, the membership nemesis. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from chaos.checkers.raft_shadow import Complain, LogModel, Shadow
from coordinator.raft.membership import Member, Membership, Rank, decode
from coordinator.raft.segments.layout import Entry
from raftbatch.ids import NodeId


class Members:
    """See the module's docstring.

    Args:
        complain: told of broken promises.
        shadows: what each node holds, by node.
    """

    def __init__(self, complain: Complain, shadows: Mapping[NodeId, Shadow]) -> None:
        self._complain = complain
        self._shadows = shadows
        self._indices: list[int] = []  # of the committed ones
        self._committed: list[Membership] = []
        self._decoded: dict[bytes, Membership] = {}
        self._added: dict[tuple[NodeId, int], Entry] = {}  # which entry made it a member

    @property
    def committed(self) -> Membership:
        """The newest that is committed."""
        return self._committed[-1] if self._committed else Membership()

    def has_committed(self, entry: Entry) -> None:
        """Take in an entry that is committed now; called for each, in order."""
        if entry.is_config:
            self._indices.append(entry.index)
            membership = self.decoded(entry)
            self._committed.append(membership)
            for member in membership.members:
                self._added.setdefault((member.node_id, member.incarnation), entry)

    def committed_at(self, index: int) -> Membership:
        """Return the newest that is committed at or below an index."""
        at = bisect_right(self._indices, index)
        return self._committed[at - 1] if at else Membership()

    def of(self, log: LogModel) -> Membership:
        """Return the one in force in a log."""
        if log.configs:
            return self.decoded(log.configs[-1])
        return self.committed_at(log.base)

    def everywhere(self) -> list[Membership]:
        """Return all that are in force anywhere, or would be after a power cut."""
        found = [self.committed]
        for shadow in self._shadows.values():
            found += [self.of(shadow.memory), self.of(shadow.durable)]
        return list(dict.fromkeys(found))

    def voters(self, membership: Membership) -> list[Shadow]:
        """Return what the voters hold: those whose life is the one that is a member."""
        found = []
        for member in membership.members:
            shadow = self._shadows.get(member.node_id)
            if member.votes and shadow is not None and shadow.incarnation == member.incarnation:
                found.append(shadow)
        return found

    def changes(self, leader: NodeId, log: LogModel, commit: int, term: int) -> None:
        """Judge a membership that a leader has just appended to its log.

        Args:
            leader: who.
            log: its log, with the entry.
            commit: the leader's commit index.
            term: the leader's.
        """
        new = self.decoded(log.configs[-1])
        before = log.configs[-2] if len(log.configs) > 1 else None
        old = self.decoded(before) if before else self.committed_at(log.base)
        if before is not None and before.index > commit:
            self._complain(f"{leader} changes the membership while {before.index} is open")
        if log.term(commit) != term:
            self._complain(f"{leader} changes the membership before it commits in {term}")
        if len(_voters(old) ^ _voters(new)) > 1:
            self._complain(f"{leader} makes {new} of {old}: more than one voter differs")
        for member in new.members:
            known = old.get(member.node_id)
            if member.votes and known is not None and known.rank is not Rank.VOTER:
                self._promotes(leader, member)

    def _promotes(self, leader: NodeId, member: Member) -> None:
        """A node that is promoted durably holds at least the entry that made it a member."""
        shadow = self._shadows.get(member.node_id)
        added = self._added[member.node_id, member.incarnation]
        if shadow is None or shadow.incarnation != member.incarnation:
            return  # its disk was lost a moment ago
        if not shadow.holds(added.index, added.term):
            self._complain(f"{leader} promotes {member.node_id}, which lacks {added.index}")

    def decoded(self, entry: Entry) -> Membership:
        """Return what a config entry says."""
        if entry.data not in self._decoded:
            self._decoded[entry.data] = decode(entry.data)
        return self._decoded[entry.data]


def _voters(membership: Membership) -> set[tuple[NodeId, int]]:
    return {(each.node_id, each.incarnation) for each in membership.members if each.votes}
