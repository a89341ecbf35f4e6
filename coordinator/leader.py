"""The leader's side of a node: what is asked of it, in the terms that this node leads.

A leader lives as long as its node, and mostly waits: when the log says that this
node leads a term, a `Leadership` begins, and ends with it. Everybody who asks is
told once what became of it: by the entry as it is applied, whichever leader had it
committed in the end; or by an error, definite where the entry never was in the log
or another stands in its place, `outcome_unknown` where this node cannot know.

What lives here: the calls, who is told, and when a leadership begins and ends. What
must never live here: entries being made (`leadership`), or an answer from the
outlook that is no refusal. Called by: `api`; by the replica, as a listener after the
log clock, to which the composition root adds it; by the log, when its role changes.
One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from coordinator import refusing
from coordinator.core.admission import answer_known
from coordinator.core.effects import Applied, Verdict
from coordinator.core.outlook import Outlook
from coordinator.core.watch import Holding
from coordinator.intake import take_all
from coordinator.leader_parts import Counts, LeaderConfig, Log, Parts, Sent
from coordinator.leadership import Leadership
from coordinator.log_clock import LogClock
from coordinator.proposer import Admission, Ask, Done, Landed
from coordinator.raft.proposals import Proposal
from coordinator.raft.segments.limits import Space
from coordinator.raft.spread import durations
from coordinator.raft.standing import Role
from coordinator.replica import Replica
from coordinator.stated import bounded
from raftbatch import records as r
from raftbatch.codec import check_record
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    Invariant,
    NoLeader,
    NoSpace,
    NotLeader,
    OutcomeUnknown,
    RaftbatchError,
    StaleIncarnation,
)
from raftbatch.records import Entry, Record
from raftbatch.world import Clock

__all__ = ["Leader", "LeaderConfig"]

_OWN = (r.Lead, r.Admit, r.Seal, r.Assign, r.Bisect, r.Quarantine, r.Advance)
"""Records that nobody may ask for: a leader makes them, or `admit` does."""
_REPORTS = (r.Complete, r.Lapse)  # how a batch ended where it ran


class Leader:
    """See the module's docstring. A `replica.Listener`.

    Args:
        clock: of this node.
        log: the replicated log.
        replica: the state that it drives.
        log_clock: says what log time it is.
        config: settings.
        founding: what follows the first Lead of a new cluster: its policy and models.

    Attributes:
        counts: what was done, in all terms.
        commit_ns: how long entries of this node took from append to apply.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        replica: Replica,
        log_clock: LogClock,
        config: LeaderConfig,
        founding: Sequence[Record],
    ) -> None:
        self.counts = Counts()
        self.commit_ns = durations()
        self._log = log
        self._replica = replica
        self._config = config
        self._parts = Parts(clock, log, replica, log_clock, config, tuple(founding), self.counts)
        self._loop = asyncio.get_running_loop()
        self._current: Leadership | None = None
        self._newest_term = 0
        self._sent: dict[tuple[int, int], tuple[Sent, int]] = {}  # and when it was appended
        self._waiting: dict[asyncio.Future[bool], None] = {}
        self._is_draining = self._is_closed = False
        log.watch(self._look)
        self._look()

    # What it is asked.

    @property
    def is_ready(self) -> bool:
        """Whether this node leads, and decides."""
        return self._ready() is not None

    async def ready(self) -> None:
        """Return once this node leads and decides; give up after `ready_wait_ms`.

        Raises:
            NotLeader, NoLeader, NoSpace: definite; another leads, or none; see `why_full`.
        """
        due = self._loop.time() + self._config.ready_wait_ms / 1000
        while not self.is_ready:
            error = refusing.why_full(self._log) or self._why_not()
            if not isinstance(error, NoLeader) or self._is_closed:
                raise error
            if len(self._waiting) >= self._config.pending_items_max:
                raise NoLeader("many wait for one already", retry_after_ms=self._config.retry_ms)
            change: asyncio.Future[bool] = self._loop.create_future()
            timer = self._loop.call_at(due, _give_up, change)
            self._waiting[change] = None
            try:
                if not await change:
                    raise error
            finally:
                timer.cancel()
                self._waiting.pop(change, None)

    def admit(self, admission: Admission, done: Done) -> None:
        """Let a request be admitted with the next entry.

        A second one of an id that is on its way waits for what becomes of the first.

        Args:
            admission: what is asked for.
            done: told once; see `proposer.Done`.

        Raises:
            NotLeader, NoLeader: definite, as are all others here.
            Draining: this node takes no new work.
            NoSpace: the disk is almost full.
            Overloaded, QuotaExceeded: more than is allowed would wait.
            UnknownModel: there is no such model version.
            InvalidRequest, PayloadTooLarge: it can never be taken.
        """
        leadership, outlook = self._require()
        if self._is_draining:
            raise Draining("this node finishes what it has, and takes nothing new")
        if self._log.space is not Space.ROOMY:
            retry_ms = self._config.retry_ms
            raise NoSpace("the leader's disk is almost full", retry_after_ms=retry_ms)
        name = f"{admission.tenant}\0{admission.request_id}"
        size = len(admission.payload) + len(admission.parameters)
        refusing.check_admission(self._replica.state, admission, size)
        inbox = leadership.inbox
        is_known = inbox.has(name) or name in outlook.state.dedupe
        if not is_known:
            now_ms = self._parts.log_clock.now_ms()
            refusing.check_load(outlook, inbox, admission, size, now_ms)
        refusing.check_room(self._config, leadership.inbox, leadership.held, size)
        inbox.add_request(name, admission, size, done)
        leadership.pump_soon()

    def admit_all(self, admissions: Sequence[Admission], dones: Sequence[Done]) -> bool:
        """Let requests be admitted with the next entry where surely all of them may be.

        Args:
            admissions: what is asked for; one at least.
            dones: told once, each of its own.

        Returns:
            whether that was done; else nothing was, and `admit` says what is against each.
        """
        current = self._ready()
        if current is None or self._is_draining or self._log.space is not Space.ROOMY:
            return False
        return take_all(current, self._config, admissions, dones)

    def propose(self, record: Record, done: Done) -> None:
        """Let any other record go into the next entry.

        Args:
            record: none that a leader makes by itself.
            done: told once; see `proposer.Done`.

        Raises:
            NotLeader, NoLeader: definite, as are all others here.
            Draining, NoSpace, Overloaded: the log refuses entries for now, or too much waits.
            InvalidRequest, PayloadTooLarge: it can never be taken.
        """
        leadership, outlook = self._require()
        if isinstance(record, _OWN):
            raise InvalidRequest(f"{type(record).__name__} is for the leader to decide")
        size = check_record(record)
        record = bounded(outlook.state, record)
        refusing.check_room(self._config, leadership.inbox, leadership.held, size)
        leadership.inbox.add_record(record, size, done)
        self.counts.reports_total += isinstance(record, _REPORTS)
        leadership.pump_soon()

    def heartbeat(
        self,
        executor: str,
        incarnation: int,
        tailed_index: int,
        holdings: Sequence[Holding],
    ) -> None:
        """Take in that an executor lives, and what it holds.

        Args:
            executor: its id.
            incarnation: of its life.
            tailed_index: up to where it has followed its feed.
            holdings: all that it holds.

        Raises:
            NotLeader, NoLeader: definite.
            StaleIncarnation: definite; that life is over.
        """
        leadership, outlook = self._require()
        live = outlook.state.executors.get(executor)
        if live is None or live.incarnation != incarnation:
            if incarnation > self._replica.index:
                # It joined with another leader, and this one does not know yet that it is none.
                raise NoLeader(f"{executor} has joined behind what this node has applied")
            raise StaleIncarnation(f"incarnation {incarnation} of {executor} is over: join anew")
        leadership.heard(executor, incarnation, tailed_index, holdings)

    def drain(self) -> None:
        """Admit nothing more on this node, and seal every window from now on."""
        self._is_draining = True
        if self._current is not None:
            self._current.drain()

    def close(self) -> None:
        """End: all who wait are told, and nobody after that."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end(NoLeader("this node stops: nothing was done"))
        sent, self._sent = self._sent, {}
        unknown = OutcomeUnknown("this node stops, and cannot say what becomes of it: ask again")
        for each, _ in sent.values():
            each.group.failed(unknown)
        self._wake_waiting()

    # What the replica and the log say.

    def applied(
        self,
        index: int,
        term: int,
        entry: Entry,  # noqa: ARG002 - a listener is given it
        applied: Applied,
    ) -> None:
        """Take in what an entry did; tell those who asked, if it was one of this node's."""
        current = self._current
        if current is not None and term > current.term:
            self._end(self._deposed())
            current = None
        found = self._sent.pop((term, index), None)
        if found is None:
            return
        sent, appended_ns = found
        self.commit_ns.add(self._parts.clock.monotonic_ns() - appended_ns)
        freed = sent.group.joined
        if current is not None and current.term == term:
            current.landed(sent, applied)
            freed = current.inbox.landed(sent.group)
        sent.group.landed(index, applied.replies)
        for ask in freed:
            self._ask_again(ask, index)

    def installed(self) -> None:
        """Take in that the state is another one: this node follows, or is about to lead.

        Raises:
            Invariant: it leads, and had applied all that came before its term.
        """
        if self._current is not None and self._current.has_landed:
            raise Invariant("a snapshot was installed over what this node leads")

    def _look(self) -> None:
        """Take in that the log's role may be another, or that it has ended."""
        if self._is_closed:
            return
        log, current = self._log, self._current
        leads = log.failure is None and log.role is Role.LEADER
        if current is not None and not (leads and log.term == current.term):
            self._end(self._deposed())
        if leads and log.term > self._newest_term:
            self._newest_term = log.term
            self._current = Leadership(
                self._parts,
                log.term,
                self._is_draining,
                self._appended,
                self._rejected,
                self._wake_waiting,
                self._over,
            )
        if self._current is not None:
            self._current.begin()
        self._wake_waiting()

    # What the leadership says.

    def _appended(self, sent: Sent, proposal: Proposal) -> None:
        key = proposal.term, proposal.index
        self._sent[key] = sent, self._parts.clock.monotonic_ns()
        proposal.when_resolved(partial(self._resolved, key))

    def _resolved(self, key: tuple[int, int], error: BaseException | None) -> None:
        """Tell those who asked that their entry is not in the log, or may not be."""
        found = self._sent.get(key) if error is not None else None
        if found is None:
            return  # told as it was applied, or at the end
        sent = found[0]
        if self._current is not None and self._current.term == sent.term:
            self._end(self._deposed())  # it is in flight still: those kept aside for it join it
        del self._sent[key]
        if not isinstance(error, RaftbatchError):
            error = OutcomeUnknown(f"this node cannot say what became of it: {error}")
        sent.group.failed(error)

    def _rejected(self, sent: Sent, error: RaftbatchError) -> None:
        """Tell those who asked that no log takes their entry."""
        freed = self._current.inbox.landed(sent.group) if self._current is not None else []
        sent.group.failed(error)
        for ask in freed:
            self._ask_again(ask, 0)

    def _over(self) -> None:
        self._end(self._deposed())
        self._wake_waiting()

    def _end(self, error: RaftbatchError) -> None:
        """End the leadership; what it has in flight is waited for."""
        current, self._current = self._current, None
        if current is None:
            return
        for sent, _ in self._sent.values():
            if sent.term == current.term:
                # Their own entries never were; but the same ids may be in the log.
                sent.group.joined = current.inbox.landed(sent.group)
        current.end(error)

    def _ask_again(self, ask: Ask, index: int) -> None:
        """Let a request go its way whose id was on its way already."""
        admission = ask.what
        assert isinstance(admission, Admission)
        state = self._replica.state
        known = state.dedupe.get(ask.name)
        if known is not None:
            verdict, ticket = answer_known(state, known, admission.content_hash)
            has_ticket = verdict in (Verdict.KNOWN, Verdict.ENDED)
            ask.done(Landed(index, verdict, "", ticket if has_ticket else 0))
            return
        try:
            self.admit(admission, ask.done)
        except RaftbatchError as error:
            ask.done(error)

    # Inside.

    def _ready(self) -> Leadership | None:
        current, log = self._current, self._log
        if current is None or not current.is_ready:
            return None
        return current if log.role is Role.LEADER and log.term == current.term else None

    def _require(self) -> tuple[Leadership, Outlook]:
        current = self._ready()
        if current is None:
            raise self._why_not()
        assert current.outlook is not None
        return current, current.outlook

    def _why_not(self) -> NotLeader | NoLeader:
        return refusing.why_not_ready(self._log, self._config.retry_ms, is_closed=self._is_closed)

    def _deposed(self) -> NotLeader:
        leader = self._log.leader
        known = "" if leader in (None, self._log.identity.node_id) else str(leader)
        return NotLeader("this node leads no more: nothing was done", leader=known)

    def _wake_waiting(self) -> None:
        """Let those who wait for a leader look again."""
        waiting, self._waiting = self._waiting, {}
        for change in waiting:
            if not change.done():
                change.set_result(True)


def _give_up(change: asyncio.Future[bool]) -> None:
    if not change.done():
        change.set_result(False)
