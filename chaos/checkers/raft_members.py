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
        self._lost: dict[tuple[NodeId, int], Shadow] = {}
        self._added: dict[tuple[NodeId, int], Entry] = {}  # which entry made it a member

    @property
    def committed(self) -> Membership:
        """The newest that is committed."""
        return self._committed[-1] if self._committed else Membership()

    def lost(self, node: NodeId, shadow: Shadow) -> None:
        """Take in that a life has lost its disk: what it acknowledged before still counts."""
        self._lost[node, shadow.incarnation] = shadow

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

    def before(self, log: LogModel) -> Membership:
        """Return the one that the change in force in a log took the place of."""
        if len(log.configs) > 1:
            return self.decoded(log.configs[-2])
        return self.committed_at(log.base)

    def may_stand(self, life: tuple[NodeId, int], log: LogModel, commit: int) -> bool:
        """Return whether a life may ask for votes: a voter, or one whose removal may yet fall.

        Args:
            life: which.
            log: its log.
            commit: its commit index: what it does not know to be committed may yet fall.
        """
        if life in self.votes(self.of(log)):
            return True
        is_open = bool(log.configs) and log.configs[-1].index > commit
        return is_open and life in self.votes(self.before(log))

    def everywhere(self) -> list[Membership]:
        """Return all that are in force in a living node's log, or would be after a power cut."""
        found = [self.committed]
        for node, shadow in self._shadows.items():
            if self.committed.why_over(node, shadow.incarnation) is None:
                found += [self.of(shadow.memory), self.of(shadow.durable)]
        return list(dict.fromkeys(found))

    def votes(self, membership: Membership) -> set[tuple[NodeId, int]]:
        """Return the lives that vote in a membership."""
        return {(each.node_id, each.incarnation) for each in membership.members if each.votes}

    def voters(self, membership: Membership) -> list[Shadow]:
        """Return what the voters hold, or held: those whose life is the one that is a member."""
        lives = {(node, shadow.incarnation): shadow for node, shadow in self._shadows.items()}
        lives |= self._lost
        return [lives[each] for each in sorted(self.votes(membership)) if each in lives]

    def changes(self, leader: NodeId, log: LogModel, commit: int, term: int) -> None:
        """Judge a membership that a leader has just appended to its log.

        Args:
            leader: who.
            log: its log, with the entry.
            commit: the leader's commit index.
            term: the leader's.
        """
        new, old = self.decoded(log.configs[-1]), self.before(log)
        if len(log.configs) > 1 and log.configs[-2].index > commit:
            self._complain(f"{leader} changes the membership while {log.configs[-2].index} is open")
        if log.term(commit) != term:
            self._complain(f"{leader} changes the membership before it commits in {term}")
        if len(self.votes(old) ^ self.votes(new)) > 1:
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
