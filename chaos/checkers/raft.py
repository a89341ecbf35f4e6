"""The invariants of Raft, held against every node after every event (RAFT.md, 8.1).

The checker sees what no node sees: all logs, what each disk would give back, and
all messages. It keeps what must never change: who led a term, which entry has an
index and term, which entry is committed at an index.

    I1  one leader a term, one sender of its appends      I7   a leader's belief is true, durably
    I2  term, commit, applied never fall                  I8   committed is durable on a majority
    I3  log matching                                      I9   a message leaves after its term
    I4  leader completeness                                    and vote; one vote a term
    I5  what is committed never changes                   I10  nothing committed is taken back
    I6  applied in order, once, the same everywhere       I14  equal index, equal state

A majority is one of the voters of the membership in force where it is counted, each
in the life that is a member; so every change of it is judged too (`raft_members`).

A broken promise is noted, and ends the run after the event: raised within the
product, it would be taken for its own failure. What lives here: the checks of one
moment. What must never live here: what clients saw (`raft_history`), how nodes are
run. Called by: `chaos.suites.raft`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from chaos.checkers.raft_members import Members
from chaos.checkers.raft_shadow import Shadow
from chaos.checkers.raft_wire import Wire
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Membership, decode, encode
from coordinator.raft.segments.layout import Entry, Kind
from coordinator.raft.segments.writer import Operation
from coordinator.raft.standing import Role
from raftbatch.ids import NodeId


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Life:
    """One process's life, as it was when it was last looked at.

    Attributes:
        node: whose.
        log: the product.
        commit, applied: they never fall.
        led_term, leadership: the latest term it was seen to lead, and the lead itself.
        matches: what it believed of its followers.
        seen: what it took for the membership in force, and what its log looked like then.
        snapshot: index of the newest snapshot that was looked at.
    """

    node: NodeId
    log: ReplicatedLog
    shadow: Shadow
    commit: int = 0
    applied: int = 0
    led_term: int = 0
    leadership: object = None
    matches: list[int] = field(default_factory=list)
    seen: tuple[Membership | None, int, int] = (None, 0, 0)
    snapshot: int = 0


class RaftChecker:
    """See the module's docstring.

    Args:
        founders: the cluster's first membership.
        slack_bytes: by how much one message may overfill a window.

    Attributes:
        violation: the first broken promise.
        committed: every committed entry, by index - 1.
        counts: what was seen.
        lives: the living processes, by node.
        leaders: who led each term.
        members: which membership is in force where.
    """

    def __init__(self, founders: Membership, slack_bytes: int) -> None:
        self.violation: str | None = None
        self.committed: list[Entry] = []
        self.counts: Counter[str] = Counter()
        self.lives: dict[NodeId, Life] = {}
        self.leaders: dict[int, NodeId] = {}
        first = encode(founders)
        self.shadows = {
            member.node_id: Shadow(self.complain, member.incarnation, first)
            for member in founders.members
        }
        self.members = Members(self.complain, self.shadows)
        self.wire = Wire(self.complain, self.shadows, self.leaders)
        self._slack_bytes = slack_bytes
        self._commit_terms: list[int] = []  # of the leader that committed it, by index - 1
        self._states = [b""]  # digest of the state, by index
        self._known: dict[tuple[int, int], tuple[bytes, int | None]] = {}

    def complain(self, promise: str) -> None:
        """Note a broken promise; the first ends the run."""
        if self.violation is None:
            self.violation = promise

    def check(self, condition: bool, promise: str) -> None:
        """Complain unless the condition holds."""
        if not condition:
            self.complain(promise)

    # Lives.

    def joins(self, node: NodeId, incarnation: int) -> None:
        """Take in that a node has an empty disk, and joins under a new incarnation."""
        self.shadows[node] = Shadow(self.complain, incarnation, None)

    def loses(self, node: NodeId) -> None:
        """Take in that a node's disk is empty."""
        shadow = self.shadows.pop(node, None)
        if shadow is not None:
            self.members.lost(node, shadow)

    def begin(self, node: NodeId, log: ReplicatedLog) -> Life:
        """Watch a process that has just opened its log."""
        shadow = self.shadows[node]
        life = self.lives[node] = Life(node, log, shadow)
        shadow.open(log._driver.journal, lambda change: self._changed(life, change))
        newest = log._driver.data.snapshots.newest
        index = newest.index if newest else 0
        self.check(index >= shadow.snapshot, f"{node} has lost snapshot {shadow.snapshot}")
        shadow.snapshot = max(shadow.snapshot, index)
        life.commit = log.commit
        self.check(log.commit <= len(self.committed), f"{node} starts with commit {log.commit}")
        self.counts["starts"] += 1
        return life

    def end(self, node: NodeId) -> None:
        """Forget a process that died."""
        if self.lives.pop(node, None) is not None:
            self.counts["crashes"] += 1

    def look(self) -> None:
        """Hold every node against the invariants; called after each event."""
        for life in self.lives.values():
            self._look(life)
        if self.violation is not None:
            raise Violation(self.violation)

    def _look(self, life: Life) -> None:
        log = life.log
        standing, journal = log._core.standing, log._driver.journal
        if journal.durable != life.shadow.lsn:
            life.shadow.catch_up(journal)
        memory = life.shadow.memory
        seen = (standing.membership, memory.base, len(memory.configs))
        if seen[0] is not life.seen[0] or seen[1:] != life.seen[1:]:
            life.seen = seen
            self._belongs(life, standing.membership)
        newest = log._driver.data.snapshots.newest
        if newest is not None and newest.index != life.snapshot:
            life.snapshot = newest.index
            self.check(
                decode(newest.config) == self.members.committed_at(newest.index),
                f"{life.node} has a snapshot at {newest.index} of another membership",
            )
        is_leader = standing.role is Role.LEADER
        if is_leader and life.led_term != standing.term:
            self._elected(life, standing.term)
            life.leadership = log._core.replication
        elif is_leader and life.leadership is not log._core.replication:
            self.complain(f"{life.node} leads term {standing.term} a second time")
        if is_leader:
            self._believes(life)
        if standing.commit != life.commit:
            # One that commits its own removal has stepped down when it is looked at.
            self._commits(life, standing.commit, life.led_term == standing.term)
        applied = log.applied
        if applied != life.applied:
            self.check(
                applied > life.applied, f"{life.node} has applied {applied}, and more before"
            )
            life.applied = applied

    # Logs.

    def _changed(self, life: Life, change: Operation) -> None:
        """Judge a change of a node's log as it is made."""
        node, commit = life.node, life.log._core.standing.commit
        match change.kind:
            case Kind.ENTRY | Kind.CONFIG:
                self._appended(life, change)
                standing = life.log._core.standing
                if change.kind is Kind.CONFIG and standing.role is Role.LEADER:
                    self.members.changes(node, life.shadow.memory, commit, standing.term)
                    self.counts["changes"] += 1
            case Kind.KEEP:
                self.check(
                    change.index >= commit, f"{node} takes back {change.index + 1}, committed"
                )
            case Kind.RESET:
                self.check(change.index > commit, f"{node} resets its log to {change.index}")
                self._is_committed(node, change.index, change.term, "a snapshot")
                newest = life.log._driver.data.snapshots.newest
                is_there = newest is not None and newest.index >= change.index
                self.check(is_there, f"{node} resets its log before the snapshot is durable")
                life.shadow.snapshot = max(life.shadow.snapshot, change.index)
                self.counts["installs"] += 1

    def _appended(self, life: Life, change: Operation) -> None:
        """Log matching: index and term name one entry and, by induction, all before it."""
        memory = life.shadow.memory
        self.check(memory.last == change.index, f"{life.node} appends {change.index} out of order")
        here = (change.data, memory.term(change.index - 1))
        known = self._known.setdefault((change.index, change.term), here)
        self.check(
            known == here,
            f"{life.node} has an entry {change.index} of term {change.term} behind one of term "
            f"{here[1]}, another has another, behind one of term {known[1]}",
        )

    def _belongs(self, life: Life, found: Membership) -> None:
        """What a node takes for the membership in force is its log's newest."""
        wanted = self.members.of(life.shadow.memory)
        self.check(found == wanted, f"{life.node} is in {found}, but its log says {wanted}")

    def _is_committed(self, node: NodeId, index: int, term: int, what: str) -> None:
        self.check(
            0 < index <= len(self.committed) and self.committed[index - 1].term == term,
            f"{node} has {what} at {index} of term {term}, which is not what was committed",
        )

    # Leaders.

    def _elected(self, life: Life, term: int) -> None:
        life.led_term = term
        life.matches = []
        node = life.node
        first = self.leaders.setdefault(term, node)
        self.check(first == node, f"{first} and {node} lead term {term}")
        self.counts["elections"] += 1
        self._is_chosen(life, term)
        index = len(self.committed)
        while index and self._commit_terms[index - 1] >= term:
            index -= 1  # a leader of an old term may win late; it will commit nothing
        if index > life.shadow.memory.base:
            found, wanted = life.shadow.memory.entry(index), self.committed[index - 1]
            self.check(
                found == wanted,
                f"{node} leads term {term}, but lacks entry {index}, committed in an earlier term",
            )

    def _is_chosen(self, life: Life, term: int) -> None:
        """A majority of the voters has voted for it, each in the life that is a member.

        It need be no voter itself, if it does not know that change to be committed.
        """
        membership, node = self.members.of(life.shadow.memory), life.node
        voters = self.members.votes(membership)
        own = (node, life.shadow.incarnation)
        said = {each for each in voters if self.wire.votes.get((*each, term)) == node}
        said |= voters & {own}  # to itself it says nothing
        if len(said) <= len(voters) // 2:
            self.complain(f"{node} leads term {term} with the votes of {said}, of {membership}")
        if not self.members.may_stand(own, life.shadow.memory, life.log.commit):
            self.complain(f"{node} leads term {term}, and is no voter of {membership}")

    def _believes(self, life: Life) -> None:
        """What a leader believes of a follower is true, and durable, unless that has moved on."""
        replication = life.log._core.replication
        if replication is None:
            return
        progress = replication.progress
        window = life.log._driver.config.window
        for peer, each in progress.items():
            if each.in_flight_bytes > window.in_flight_bytes_max + self._slack_bytes:
                self.complain(f"{each.in_flight_bytes} bytes are in flight to {peer}")
        matches = [each.match for each in progress.values()]
        if matches == life.matches:
            return
        life.matches = matches
        memory = life.shadow.memory
        for peer, each in progress.items():
            shadow = self.shadows.get(peer)
            if shadow is None or shadow.incarnation != each.incarnation:
                continue
            if each.match and shadow.memory.hard_state.term <= memory.hard_state.term:
                term = memory.term(each.match)
                self.check(
                    term is None or shadow.holds(each.match, term),
                    f"{life.node} believes that {peer} durably holds {each.match} of term {term}",
                )

    # What is committed, and applied.

    def _commits(self, life: Life, commit: int, is_leader: bool) -> None:
        node, memory = life.node, life.shadow.memory
        before, life.commit = life.commit, commit
        self.check(commit > before, f"{node} takes its commit index back from {before} to {commit}")
        self.check(commit <= memory.last, f"{node} commits {commit}, but ends with {memory.last}")
        if is_leader and commit > len(self.committed):
            term = memory.term(commit)
            assert term is not None
            self.check(
                term == life.led_term,
                f"{node} commits {commit} of term {term} by counting, in term {life.led_term}",
            )
            membership = self.members.of(memory)
            voters = self.members.voters(membership)
            holders = sum(shadow.holds(commit, term) for shadow in voters)
            self.check(
                holders > len(membership.voters) // 2,
                f"{node} commits {commit} of term {term}, which is durable on {holders} voters "
                f"of {membership}",
            )
            for index in range(len(self.committed) + 1, commit + 1):
                entry = memory.entry(index)
                if entry is None:
                    self.complain(f"{node} commits {commit}, but does not have {index}")
                    return
                self.committed.append(entry)
                self.members.has_committed(entry)
                self._commit_terms.append(life.led_term)
        self.check(
            commit <= len(self.committed), f"{node} follows, and commits {commit} before a leader"
        )
        for index in range(max(before, memory.base) + 1, min(commit, len(self.committed)) + 1):
            found, wanted = memory.entry(index), self.committed[index - 1]
            if found != wanted:
                self.complain(f"{node} commits another entry {index}: {found} is not {wanted}")
                return

    def applies(self, life: Life, before: int, entry: Entry) -> bytes:
        """Judge an entry that a replica is given after `before`; return the state's digest."""
        node, index = life.node, entry.index
        if index > life.commit:
            self._look(life)
        self.check(index == before + 1, f"{node} applies {index} after {before}")
        is_committed = index <= min(life.commit, len(self.committed))
        self.check(is_committed, f"{node} applies {index}, which is not committed")
        if not is_committed:
            return b""
        wanted = blank(self.committed[index - 1])
        self.check(entry == wanted, f"{node} applies another entry {index}")
        return self.state(index)

    def state(self, index: int) -> bytes:
        """Return the digest of the state after a committed index."""
        while len(self._states) <= index:
            entry = blank(self.committed[len(self._states) - 1])
            self._states.append(step(self._states[-1], entry))
        return self._states[index]

    def installs(self, node: NodeId, index: int, digest: bytes) -> None:
        """Judge a snapshot's state that a replica is given."""
        self.check(index <= len(self.committed), f"{node} installs a snapshot of the future")
        if index <= len(self.committed):
            self.check(digest == self.state(index), f"{node}'s state at {index} is another")


def blank(entry: Entry) -> Entry:
    """Return an entry as a replica is given it: what is the log's own is empty."""
    return Entry(entry.index, entry.term, b"") if entry.is_config else entry


def step(state: bytes, entry: Entry) -> bytes:
    """Return the digest of a state after an entry. Total. Deterministic."""
    head = f"{entry.index} {entry.term} ".encode("ascii")
    return hashlib.blake2b(state + head + entry.data, digest_size=16).digest()
