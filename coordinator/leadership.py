"""One leadership: what a node does in a term that it leads, from its Lead to its end.

A Lead is proposed, and nothing is decided before it is applied. Then the outlook is
built, a step in each turn of the loop: nothing is applied meanwhile, since nobody
appends in this term but this node, which proposes nothing. After that entries are
made, as long as few are in flight: of what was asked for, of what heartbeats and
leases say, and of what is decided with it.

An entry that the log refuses for now (a full disk, a hand-over) is kept as it is and
offered again: the outlook has foreseen it, and nothing can be appended before it. If
this node leads no more it was never appended, and all its askers are told so.

What lives here: that. What must never live here: whether this node leads (`leader`),
what is decided (`coordinator.core`). Called by: `leader`. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from coordinator.core.decide import Decider
from coordinator.core.effects import Applied, Change, ExecutorChanged, ModelChanged
from coordinator.core.flights import Flight
from coordinator.core.outlook import Outlook
from coordinator.core.unbegun import Unbegun
from coordinator.core.watch import Holding, Watch
from coordinator.leader_parts import Parts, Sent, is_worth_another, voids_in
from coordinator.leases import Leases
from coordinator.proposer import Group, Inbox
from coordinator.raft.proposals import Proposal
from coordinator.run_times import RunTimes
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.errors import (
    CannotStart,
    Fatal,
    Invariant,
    NoLeader,
    NotLeader,
    PayloadTooLarge,
    RaftbatchError,
)
from raftbatch.records import Complete, Entry

FEATURE_LEVEL = 1
"""What this program understands."""

_HEARD_MAX = 4096
"""Records of an entry beyond which no further heartbeat is looked at: each may lapse a thousand."""

_DELAY_S_MIN = 0.0005
"""Timers that are due within less: log time is counted in milliseconds."""


class Leadership:
    """See the module's docstring.

    Args:
        parts: what it works with.
        term: which it leads.
        is_draining: whether every window is sealed at once.
        appended: told each entry that was appended.
        rejected: told an entry that the log will never take, and why.
        changed: called when it may have become ready.
        over: called where it finds that this node leads the term no more.

    Attributes:
        term: as above.
        inbox: what waits for an entry.
        outlook: None before it is built.
        held: why the log refuses entries for now; None: it does not.
    """

    def __init__(
        self,
        parts: Parts,
        term: int,
        is_draining: bool,
        appended: Callable[[Sent, Proposal], None],
        rejected: Callable[[Sent, RaftbatchError], None],
        changed: Callable[[], None],
        over: Callable[[], None],
    ) -> None:
        self.term = term
        self.inbox = Inbox()
        self.outlook: Outlook | None = None
        self.held: RaftbatchError | None = None
        self._parts = parts
        self._config = parts.config
        self._appended = appended
        self._rejected = rejected
        self._changed = changed
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._is_draining = is_draining
        self._is_over = self._is_pump_due = self._has_led = self._has_landed = False
        self._decider: Decider | None = None
        self._watch: Watch | None = None
        self._leases = Leases(parts.config.lease_ms)
        self._heard: dict[str, tuple[int, int, Sequence[Holding], int]] = {}
        self._run_times = RunTimes()
        self._unbegun = Unbegun(parts.config.unbegun_ms, parts.config.lease_ms)
        self._decided_ms = 0
        self._in_flight = self._newest_size = 0
        self._unsent: Sent | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._retry: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None

    @property
    def has_landed(self) -> bool:
        """Whether its Lead is applied."""
        return self._has_landed

    @property
    def is_ready(self) -> bool:
        """Whether it decides."""
        return self.outlook is not None and not self.outlook.is_stale

    def begin(self) -> None:
        """Propose the Lead, if that has not been done and may be.

        Where no Lead is known yet this node may only be behind: whether the cluster
        is to be founded is known when all that was in its log is applied.
        """
        parts = self._parts
        is_first = parts.replica.state.term == 0
        if self._has_led or (is_first and parts.founding and not parts.log.is_caught_up):
            return
        self._has_led = True
        parts.log_clock.leads(self.term)
        lead = r.Lead(parts.log.identity.node_id, parts.clock.wall_ms(), FEATURE_LEVEL)
        records = (lead, *parts.founding) if is_first else (lead,)
        entry = Entry(self.term, parts.log_clock.now_ms(), records)
        self._unsent = Sent(self.term, None, Group(), encode_entry(entry))
        self._send()

    def drain(self) -> None:
        """Seal every window from now on."""
        self._is_draining = True
        if self._decider is not None:
            self._decider.drain()
            self.pump_soon()

    def end(self, error: RaftbatchError) -> None:
        """Do nothing more; tell all whose entry was not appended."""
        self._is_over = True
        for timer in (self._timer, self._retry, self._tick):
            if timer is not None:
                timer.cancel()
        self.outlook = None
        unsent, self._unsent = self._unsent, None
        if unsent is not None:
            unsent.group.failed(error)
        self.inbox.close(error)

    # What comes in.

    def pump_soon(self) -> None:
        """Make entries once this turn's events are all in."""
        if not self._is_pump_due and not self._is_over:
            self._is_pump_due = True
            self._loop.call_soon(self._run, self._pump)

    def heard(
        self, executor: str, incarnation: int, tailed_index: int, holdings: Sequence[Holding]
    ) -> None:
        """Take in a heartbeat of a live incarnation. Only the newest of each is looked at."""
        parts = self._parts
        self._leases.renew(executor, incarnation, parts.clock.monotonic_ns())
        at_ms = parts.log_clock.now_ms()
        self._heard[executor] = (incarnation, tailed_index, holdings, at_ms)
        self.pump_soon()

    def landed(self, sent: Sent, applied: Applied) -> None:
        """Take in that the entry that was appended first of those in flight is applied."""
        if sent.flight is None:
            self._has_landed = True
            self._build()
            return
        outlook = self.outlook
        assert outlook is not None
        self._in_flight -= 1
        was_stale = outlook.is_stale
        outlook.applied(applied)
        if outlook.is_stale:
            self._parts.counts.voids_total += voids_in(sent.flight, applied)
            if not was_stale:
                self._parts.counts.stale_total += 1
        now_ns = self._parts.clock.monotonic_ns()
        for effect in applied.effects:
            match effect:
                case ExecutorChanged(executor, incarnation, Change.JOINED):
                    self._leases.renew(executor, incarnation, now_ns)
                case ExecutorChanged(executor, incarnation, Change.GONE | Change.LOST):
                    self._leases.end(executor, incarnation)
                    self._heard.pop(executor, None)
                case ModelChanged(name, version) if (name, version) not in outlook.state.models:
                    self._run_times.forget((name, version), self._decider)
                case _:
                    pass
        self.pump_soon()

    # The outlook.

    def _build(self) -> None:
        """Build the outlook, a step in each turn of the loop."""
        self.outlook = self._decider = self._watch = None
        outlook = Outlook(self._parts.replica.state, self._unbegun.barred)
        steps = outlook.build()
        self._loop.call_soon(self._run, self._build_on, outlook, steps)

    def _build_on(self, outlook: Outlook, steps: Iterator[None]) -> None:
        if self._is_over:
            return
        if next(steps, self) is not self:
            self._loop.call_soon(self._run, self._build_on, outlook, steps)
            return
        self.outlook = outlook
        self._watch = Watch(outlook, self._unbegun)
        self._decider = Decider(outlook)
        self._run_times.attach(self._decider)
        self._decider.is_draining = self._is_draining  # every window is looked at anyway
        # Anew too where it is built again: who was found lost in an entry that no log took.
        live = [(each.executor, each.incarnation) for each in outlook.state.executors.values()]
        self._leases.begin(sorted(live), self._parts.clock.monotonic_ns())
        if self._tick is None:
            self._judge()
        self.pump_soon()
        self._changed()

    # Entries.

    def _run(self, step: Callable[..., None], *values: object) -> None:
        """Do something in a turn of its own; what failed midway is not to be trusted."""
        try:
            step(*values)
        except Fatal as error:
            self._parts.log.fail(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the outlook may be wrong by now
            self._parts.log.fail(Invariant(f"a leader met an error it does not know: {error!r}"))

    def _pump(self) -> None:
        """Make entries, as long as there is something for one, and room for it."""
        self._is_pump_due = False
        if self._is_over or (self._unsent is not None and not self._send()):
            return
        while self.outlook is not None and self._in_flight < self._config.entries_inflight_max:
            if self.outlook.is_stale:
                if not self._in_flight:
                    self._build()
                return
            if self._is_gathering() or not self._make():
                break
        self._set_timer()

    def _is_gathering(self) -> bool:
        """Whether what waits is left to gather until what is in flight has landed."""
        return self._in_flight > 0 and not is_worth_another(self._newest_size, self.inbox.size)

    def _make(self) -> bool:
        """Make an entry and append it; return whether another may follow."""
        outlook, decider, parts = self.outlook, self._decider, self._parts
        assert outlook is not None
        assert decider is not None
        at_ms = parts.log_clock.now_ms()
        waiting = self.inbox.size
        group = self.inbox.take(outlook.next_request, self._config.entry_bytes_max)
        flight = outlook.begin(at_ms)
        for record in group.records:
            if type(record) is Complete:
                self._run_times.reported(record, outlook, decider)
            outlook.add(record, flight)
        self._add_watched(outlook, flight, at_ms)
        was_stale = outlook.is_stale
        self._decided_ms = at_ms
        decider.decide(flight, is_quiet=not self.inbox.admissions)
        if outlook.is_stale and not was_stale:
            parts.counts.stale_total += 1
        if not flight.records:
            if outlook.is_stale or decider.has_more:
                self.pump_soon()
            return False
        outlook.commit(flight)
        self._in_flight += 1
        self._newest_size = waiting - self.inbox.size
        entry = Entry(self.term, at_ms, tuple(flight.records))
        self._unsent = Sent(self.term, flight, group, encode_entry(entry))
        return self._send()

    def _add_watched(self, outlook: Outlook, flight: Flight, at_ms: int) -> None:
        """Add what heartbeats, leases and timeouts ask for; each foresees those before it."""
        watch = self._watch
        assert watch is not None
        while self._heard and len(flight.records) < _HEARD_MAX:
            executor = next(iter(self._heard))
            incarnation, tailed_index, holdings, heard_ms = self._heard.pop(executor)
            for record in watch.heard(executor, incarnation, tailed_index, holdings, heard_ms):
                outlook.add(record, flight)
        for record in watch.overdue(at_ms):
            outlook.add(record, flight)
        for executor, incarnation in self._leases.take_lost():
            for record in watch.lost(executor, incarnation):
                outlook.add(record, flight)

    def _send(self) -> bool:
        """Append the entry that was made; return whether that was done."""
        sent, parts = self._unsent, self._parts
        assert sent is not None
        try:
            proposal = parts.log.propose(self.term, sent.data)
        except (NotLeader, NoLeader, Fatal):
            self._over()
            return False
        except PayloadTooLarge as error:
            self._give_up(sent, error)
            return False
        except RaftbatchError as error:
            if self.held is None:
                parts.counts.held_total += 1
            self.held = error
            if self._retry is None:
                self._retry = self._loop.call_later(self._config.retry_ms / 1000, self._offer)
            return False
        self.held = self._unsent = None
        counts = parts.counts
        counts.entries_total += 1
        if sent.flight is not None:
            counts.records_total += len(sent.flight.records)
            counts.requests_total += len(sent.group.admitting)
        self._appended(sent, proposal)
        return True

    def _offer(self) -> None:
        self._retry = None
        self.pump_soon()

    def _give_up(self, sent: Sent, error: RaftbatchError) -> None:
        """Drop an entry that no log will take, and begin anew without it.

        Raises:
            CannotStart: it is the first of all, with what the operator configured.
        """
        self._unsent = None
        if sent.flight is None:
            raise CannotStart(
                f"policy and models of the configuration are more than one entry holds: {error}"
            )
        self._in_flight -= 1
        assert self.outlook is not None
        self.outlook.is_stale = True
        self._parts.counts.rejected_total += 1
        self._rejected(sent, error)
        self.pump_soon()

    # Time.

    def _set_timer(self) -> None:
        """Wake up when something is to be decided by itself, if there is room for it.

        Where there is none, or what is due is under way, the next entry that lands
        wakes us up. A timer that comes too early is harmless, and kept.
        """
        decider, watch = self._decider, self._watch
        if decider is None or watch is None:
            return
        if self._is_over or self._in_flight >= self._config.entries_inflight_max:
            return
        if self._is_gathering():
            return
        due = [each for each in (decider.wake_ms(), watch.next_ms()) if each is not None]
        if not due:
            return
        wake_ms = min(due)
        if self._timer is not None:
            if self._timer_ms <= wake_ms:
                return
            self._timer.cancel()
            self._timer = None
        delay_s = self._parts.log_clock.delay_s(wake_ms)
        if wake_ms <= self._decided_ms:  # it was looked at, and is under way
            if self._in_flight:
                return
            delay_s = self._parts.replica.state.policy.tick_ms / 1000
        self._timer_ms = wake_ms
        self._timer = self._loop.call_later(max(delay_s, _DELAY_S_MIN), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.pump_soon()

    def _judge(self) -> None:
        """Judge who has not been heard of."""
        if self._leases.tick(self._parts.clock.monotonic_ns()):
            self.pump_soon()
        self._parts.counts.stalls_total += self._leases.take_stalls()
        self._tick = self._loop.call_later(self._leases.tick_s, self._judge)
