"""The consensus core of one node: every event comes in here, and is given to whom it concerns.

Contract. The driver calls one method per event, with the monotonic time, on one
thread. Each returns at once. After each call, or some, and in this order, the driver

1. calls `replicate`, and sends what is in `outbox` as soon as its LSN is durable;
2. calls `log.flush()`, so that what was appended is on its way to the disk, and hands
   entries up to `commit` to the state machine, in order; either may be the first.

Frames are given before `tick`, which is due at `deadline_ns` and may come earlier.

What lives here: the order of things: terms first, then roles, then the message
itself. What must never live here: asyncio, a socket, a file, a clock. Called
by: `syncobj`, `driver`. Deterministic. Source: Raft paper, figure 2; docs/RAFT.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from coordinator.raft.appending import Appending
from coordinator.raft.changes import Change, Changes
from coordinator.raft.election import Election
from coordinator.raft.lives import Lives
from coordinator.raft.membership import Membership, decode
from coordinator.raft.messages import (
    TERM_LEAP_MAX,
    AppendEntries,
    AppendReply,
    Beat,
    InstallSnapshot,
    Message,
    PreVote,
    PreVoteReply,
    RequestVote,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.ports import Fetch, Log, Store
from coordinator.raft.reads import Answer, Reads
from coordinator.raft.receiving import Receiving
from coordinator.raft.replication import Replication, Window
from coordinator.raft.standing import Role, Standing
from coordinator.raft.timing import MS, Timing
from coordinator.raft.transfer import Done, Transfer
from raftbatch.errors import Draining, InvalidRequest, Invariant, NoLeader, RaftbatchError
from raftbatch.ids import NodeId


class Core:
    """See the module's docstring.

    Args:
        self_id: this node.
        incarnation: which life of it.
        log: entries and hard state.
        store: snapshots.
        fetch: reads that take time.
        timing: the timers.
        window: how much is under way to a follower.
        below: draws an integer from 0 up to, not including, its argument.
        may_lead: whether the disk has room for a leader's work.
        installed: called when the newest snapshot must replace the state machine's state.
        now_ns: the monotonic time.
    """

    def __init__(
        self,
        self_id: NodeId,
        incarnation: int,
        log: Log,
        store: Store,
        fetch: Fetch,
        timing: Timing,
        window: Window,
        below: Callable[[int], int],
        may_lead: Callable[[], bool],
        installed: Callable[[], None],
        now_ns: int,
    ) -> None:
        newest = store.newest
        base = decode(newest.config) if newest else Membership()
        self.standing = standing = Standing(self_id, incarnation, base, log, timing, below)
        standing.now_ns = now_ns
        standing.commit = newest.index if newest else 0
        self.election = Election(standing, may_lead, self._lead)
        self.appending = Appending(standing)
        self.receiving = Receiving(standing, store, self._install)
        self.reads = Reads(standing)
        self.transfer = Transfer(standing)
        self.changes = Changes(standing, self.reads, self.transfer)
        self.lives = Lives(standing)
        self.replication: Replication | None = None
        self._may_lead = may_lead
        self._store = store
        self._fetch = fetch
        self._window = window
        self._installed = installed
        self._ticked_ns = now_ns
        self._grace_ns = now_ns - timing.election_ms_max * MS

    @property
    def deadline_ns(self) -> int:
        """When `tick` is due: at the next timer, and often enough to notice a stall."""
        due = self._ticked_ns + self.standing.timing.election_ms_min * MS // 3
        if self.replication is None:
            return min(due, self.election.deadline_ns)
        return min(due, self.replication.beat_ns)

    # Events.
    def receive(self, now_ns: int, sender: NodeId, message: Message) -> None:
        """Take in a message. One that is old, or doubled, changes nothing.

        The sender need be no member: this node may be behind, and lack the entry that
        made it one. Asked for a vote, it judges by its log and term alone. Source: thesis, 4.1.
        """
        standing = self.standing
        standing.now_ns = now_ns
        term = message.own_term if isinstance(message, PreVoteReply) else message.term
        if not self.lives.is_heard(sender, term, self._leaving):
            return
        if isinstance(message, PreVote):
            self.election.on_pre_vote(sender, message)
            return
        if term > standing.term:
            is_election = isinstance(message, RequestVote) and not message.transfer
            if is_election and self.election.is_leader_alive:
                return  # stickiness: not even the term is taken over. Source: thesis, 4.2.3
            self._follow(min(term, standing.term + TERM_LEAP_MAX), None)
            if term > standing.term:
                return  # nobody has held so many elections
        if isinstance(message, PreVoteReply):
            if self.lives.is_member(sender):
                self.election.on_pre_vote_reply(sender, message)
        elif term < standing.term:
            self._answer_old(sender, message)
        else:
            self._dispatch(sender, message)

    def tick(self, now_ns: int) -> None:
        """Judge the timers."""
        standing = self.standing
        standing.now_ns = now_ns
        has_stalled = now_ns - self._ticked_ns > standing.timing.election_ms_min * MS // 2
        if has_stalled and now_ns >= self._grace_ns + standing.timing.election_ms_max * MS:
            # This process stood still, and so may have heard nobody: it judges no one
            # before what has arrived meanwhile is read. Not each time where it always
            # stands still: a node that is merely slow must judge too.
            self._grace_ns = now_ns + 2 * standing.timing.heartbeat_ms * MS
            self.election.deadline_ns = max(self.election.deadline_ns, self._grace_ns)
        self._ticked_ns = now_ns
        self.transfer.tick()
        self.lives.part(self._leaving)
        if self.replication is None:
            self.election.tick()
            return
        self.changes.tick(self.replication.followers)
        if not self._may_lead() or (now_ns > self._grace_ns and not self.replication.has_quorum):
            # It hears no majority, or has no room to append: let another lead.
            self._follow(standing.term, None)
        else:
            self.replication.tick()
            self._advance()

    def durable(self, now_ns: int) -> None:
        """Take in that the log has become durable further."""
        self.standing.now_ns = now_ns
        self.election.durable()
        self.appending.durable()
        self._advance()

    def connected(self, now_ns: int, peer: NodeId, incarnation: int) -> None:
        """Take in that there is a new connection to a peer; the old one's messages are gone."""
        self.standing.now_ns = now_ns
        self.lives.came(peer, incarnation)
        self.appending.connected()
        if self.replication is not None:
            self.replication.connected(peer)

    def disconnected(self, now_ns: int, peer: NodeId) -> None:
        """Take in that the connection to a peer broke."""
        self.standing.now_ns = now_ns
        if self.lives.of(peer) is not None:
            if self.replication is not None:
                self.replication.disconnected(peer)
            self.lives.went(peer)
            self.election.link_broke(peer)

    # What the node is asked to do.
    def propose(self, now_ns: int, term: int, data: bytes) -> int:
        """Append an entry in the term that this node leads; return its index.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead that term.
            Draining: definite; leadership is being handed over.
            NoSpace, Overloaded, PayloadTooLarge: definite.
        """
        standing = self.standing
        standing.now_ns = now_ns
        standing.check_leads(term)
        if self.transfer.heir is not None or not standing.is_voter:
            heir = self.transfer.heir or "another voter: this node was removed"
            raise Draining(
                f"leadership is being handed to {heir}", retry_after_ms=standing.timing.retry_ms
            )
        assert self.replication is not None
        self.replication.uncommitted.check(len(data))
        standing.log.append(term, data)
        self.replication.uncommitted.add(standing.log.last_index, len(data))
        return standing.log.last_index

    def change(self, now_ns: int, change: Change) -> int:
        """Append the membership that a change makes; return its index. In force at once.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead.
            Draining, Overloaded, InvalidRequest, NoSpace: see `Changes.make`.
        """
        standing = self.standing
        standing.now_ns = now_ns
        standing.check_leads(standing.term)
        assert self.replication is not None
        return self.changes.make(change, self.replication.followers)

    def replicate(self, now_ns: int, *, tells: bool = True) -> bool:
        """Send what was proposed, and begin a round for what is to be read; once for many.

        Returns whether a commit is still to be told: it is with the next call that `tells`.
        What is applied before that may lead to proposals, which carry the news.
        """
        self.standing.now_ns, leading = now_ns, self.replication
        if leading is None:
            # A follower that is fed need not wake to see that it does not stand still.
            early_ns = self._ticked_ns + self.standing.timing.heartbeat_ms * MS // 2
            if early_ns <= now_ns < self.deadline_ns:  # once it is due, `tick` judges that
                self._ticked_ns = now_ns
                self.lives.part(self._leaving)
            return False
        if self.reads.newest_round > leading.round:
            leading.beat()
        if self.reads.newest_round:
            self.reads.answered(leading.answered_round())  # a lone voter's at once
        leading.feed()
        self._advance()
        if tells:
            leading.tell()  # nothing where it leads no more: `_advance` has told it all
        return leading.told != self.standing.commit

    def read(self, now_ns: int, answer: Answer) -> None:
        """Ask for an index to have applied before a linearizable read; `replicate` must follow.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead, or not surely yet.
        """
        standing = self.standing
        standing.now_ns = now_ns
        standing.check_leads(standing.term)
        if not self.reads.may_be_asked:
            raise NoLeader(
                "this leader has committed nothing yet", retry_after_ms=standing.timing.retry_ms
            )
        assert self.replication is not None
        self.reads.ask(self.replication.round + 1, answer)

    def hand_over(self, now_ns: int, heir: NodeId, done: Done) -> None:
        """Hand leadership to a peer.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead.
            InvalidRequest: definite; the heir is no other voter.
        """
        standing = self.standing
        standing.now_ns = now_ns
        standing.check_leads(standing.term)
        if heir not in standing.peers:
            raise InvalidRequest(
                f"leadership cannot be handed to {heir}: the other voters are "
                f"{', '.join(standing.peers) or 'none'}"
            )
        assert self.replication is not None
        self.transfer.begin(heir, done)
        self.transfer.holds(heir, self.replication.progress[heir].match)

    # Inside.
    def _dispatch(self, sender: NodeId, message: Message) -> None:
        """Handle a message of the present term."""
        standing, replication = self.standing, self.replication
        match message:
            case RequestVote():
                self.election.on_request_vote(sender, message)
            case VoteReply() if self.lives.is_member(sender):
                self.election.on_vote_reply(sender, message)
            case AppendEntries():
                self._heed(sender)
                self.appending.on_append_entries(message)
            case Beat():
                self._heed(sender)
                self.appending.acknowledge(message.round)
            case InstallSnapshot():
                self._heed(sender)
                if message.index <= standing.commit:
                    self.appending.verified = max(self.appending.verified, standing.commit)
                    self.appending.acknowledge(message.round)
                else:
                    self.receiving.on_install_snapshot(message)
            case AppendReply() | SnapshotReply() if replication is not None:
                if isinstance(message, SnapshotReply):
                    replication.on_snapshot_reply(sender, message)
                elif replication.on_append_reply(sender, message):
                    self.transfer.holds(sender, message.match)
                    self._advance()
                if self.reads.newest_round:
                    self.reads.answered(replication.answered_round())
            case TimeoutNow() if sender == standing.leader and self._may_lead():
                if standing.may_stand:
                    self.election.begin(transfer=True)

    @property
    def _leaving(self) -> Collection[NodeId]:
        return self.replication.followers.leaving if self.replication else ()

    def _answer_old(self, sender: NodeId, message: Message) -> None:
        """Tell a leader or candidate of an earlier term that there is a later one."""
        standing = self.standing
        match message:
            case AppendEntries() | Beat() | InstallSnapshot():
                standing.send(sender, AppendReply(standing.term, 0, 0, 0, 0, 0))
            case RequestVote():
                standing.send(sender, VoteReply(standing.term, False))

    def _heed(self, leader: NodeId) -> None:
        """Follow the leader of the present term, who has just been heard."""
        standing = self.standing
        if standing.leader not in (None, leader):
            raise Invariant(f"{standing.leader} leads term {standing.term}, and so does {leader}")
        if standing.leader != leader:
            # A candidate's too: what was compared with another leader says nothing of this one.
            self.appending.reset()
        standing.role, standing.leader = Role.FOLLOWER, leader
        self.election.heard()

    def _follow(self, term: int, leader: NodeId | None) -> None:
        """Become a follower, in the present term or a later one."""
        standing = self.standing
        led, self.replication = self.replication, None
        standing.role, standing.leader = Role.FOLLOWER, leader
        self.election.stand_down()
        self.appending.reset()
        if term > standing.term:
            standing.enter(term, None)
        if led is not None:
            led.end()
            self.reads.fail()
            self.transfer.end(succeeded=True)
            self.election.wait()

    def _lead(self) -> None:
        """Begin to lead the present term: with an empty entry, which commits all before it.

        Source: Raft paper, 8 (a no-op entry at the start of a term).
        """
        standing = self.standing
        try:
            standing.log.append(standing.term, b"")
        except RaftbatchError:
            self._follow(standing.term, None)  # no room after all: let another lead
            self.election.wait()
            return
        standing.role, standing.leader = Role.LEADER, standing.self_id
        self.replication = Replication(standing, self._window, self._fetch, self._store, self.lives)
        self.replication.tick()
        self._advance()

    def _advance(self) -> None:
        """Commit what can be; leave, if no voter any more by that. Source: thesis, 4.2.2, 3.10."""
        standing = self.standing
        if self.replication is None:
            return
        self.replication.advance()
        if not standing.is_voter and standing.is_membership_committed:
            self.replication.tell()
            heir = self.replication.followers.best_voter()
            if heir is not None:
                standing.send(heir, TimeoutNow(standing.term))
            self._follow(standing.term, None)

    def _install(self, index: int, term: int) -> None:
        """Take over a received snapshot, now durable. The log behind it is kept if it follows."""
        standing, log = self.standing, self.standing.log
        if index > standing.commit:
            newest = self._store.newest
            assert newest is not None
            if log.term(index) != term:
                log.reset(index, term)
            standing.base = decode(newest.config)
            standing.commit = index
            self._installed()
        self.appending.verified = max(self.appending.verified, index)
        self.appending.acknowledge(0)
