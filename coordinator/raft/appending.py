"""The follower's log: taking in what the leader appends, and saying what it holds.

Two rules carry safety. Entries are taken back only where they really conflict,
never because a message is old or short. And what is acknowledged, or taken for
committed, is only what was compared with this leader's log in this term
(`verified`) and, for acknowledgements, is durable.

What lives here: the receiver of AppendEntries. What must never live here: the
sender (`replication`). Called by: `core`. Deterministic.
Source: Raft paper, figure 2 and 5.3; docs/RAFT.md, faults 1, 2, 5, 6, 12, 20, 27.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.raft.membership import decode
from coordinator.raft.messages import AppendEntries, AppendReply
from coordinator.raft.parting import last_of_term
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Standing
from coordinator.raft.timing import MS
from raftbatch.errors import Invariant, NoSpace, Overloaded, PayloadTooLarge

_FULL_MS = 500
"""How long a follower without room says nothing of what it lacks: the leader
would send it all again each time."""


class Appending:
    """See the module's docstring.

    Attributes:
        verified: highest index up to which the log is known to be the leader's
            of this term. 0 when a term begins.
        heard: the leader's own commit index, as of its last word in this term: what is
            to be caught up with. Nothing follows from it.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.verified = self.heard = 0
        self._acknowledged = self._answered = 0  # up to which entry, and which round
        self._full_until_ns = 0
        self._is_swamped = False  # too much waits for the disk, as of the last try to append

    def reset(self) -> None:
        """Forget what was compared: a new term has another leader."""
        self.heard = 0
        self.verified = self._acknowledged = self._answered = 0

    def connected(self) -> None:
        """Forget what was answered: it may be lost with the connection that it went over."""
        self._answered = -1

    def on_append_entries(self, message: AppendEntries) -> None:
        """Take in entries of this term's leader, and answer.

        Raises:
            Invariant: they contradict what is committed, or are of a later term than said.
        """
        standing, log = self._standing, self._standing.log
        prev, entries = message.prev_index, message.entries
        self.heard = max(self.heard, message.commit)
        if entries and entries[-1].term > message.term:
            raise Invariant(f"entry {entries[-1].index} is of a later term than its sender's")
        if prev < standing.commit:
            # What is committed is in every later leader's log: begin behind it.
            for entry in entries[: standing.commit - prev]:
                self._check_committed(entry.index, entry.term)
            entries = entries[standing.commit - prev :]
            prev = min(standing.commit, prev + len(message.entries))
        elif prev == standing.commit:
            self._check_committed(prev, message.prev_term)
        elif log.term(prev) != message.prev_term:
            self._reject(message)
            return
        self.verified = max(self.verified, self._take(prev, entries))
        # Entries are answered when they are durable, and news of a commit by nobody: a message
        # that brings neither asks where this node is.
        asks = not message.entries and message.commit <= standing.commit
        standing.commit = max(standing.commit, min(message.commit, self.verified))
        if asks or message.round > self._answered or self._holds() > self._acknowledged:
            self.acknowledge(message.round)

    def acknowledge(self, round_: int) -> None:
        """Tell the leader what this node holds, verified and durable."""
        standing = self._standing
        if standing.leader not in (None, standing.self_id):
            self._acknowledged = self._holds()
            self._answered = max(self._answered, round_)
            reply = AppendReply(standing.term, self._acknowledged, 0, 0, 0, round_)
            standing.send(standing.leader, reply)

    def durable(self) -> None:
        """Tell the leader if more has become durable."""
        self._is_swamped = False
        if self._holds() > self._acknowledged:
            self.acknowledge(0)

    def _holds(self) -> int:
        return min(self.verified, self._standing.log.durable_index)

    def _take(self, prev: int, entries: Sequence[Entry]) -> int:
        """Append what is missing behind `prev`; return up to where the log is the leader's."""
        standing, log = self._standing, self._standing.log
        for entry in entries:
            if entry.index != prev + 1:
                raise Invariant(f"entry {entry.index} was sent behind entry {prev}")
            if entry.index <= log.last_index:
                if log.term(entry.index) == entry.term:
                    prev = entry.index  # it is the same: never taken back
                    continue
                self._check_committed(entry.index, entry.term)
                log.truncate(entry.index - 1)
            try:
                if entry.is_config:
                    self._check_config(entry)
                log.append(entry.term, entry.data, is_config=entry.is_config)
            except NoSpace:
                self._full_until_ns = standing.now_ns + _FULL_MS * MS
                break
            except Overloaded:
                self._is_swamped = True
                break
            except PayloadTooLarge as error:
                raise Invariant(
                    f"the leader sent entry {entry.index}, but {error.message}: give every node "
                    "the same limits, then start this one again"
                ) from None
            prev = entry.index
        return prev

    def _check_config(self, entry: Entry) -> None:
        """Stop rather than store what could not be read again: frames were checked as they came."""
        try:
            decode(entry.data)
        except ValueError as error:
            raise Invariant(f"the leader sent entry {entry.index}: {error}") from None

    def _check_committed(self, index: int, term: int) -> None:
        """Stop rather than run on beside a leader that lacks what is committed here."""
        if index <= self._standing.commit and self._standing.log.term(index) not in (None, term):
            raise Invariant(
                f"the leader of term {self._standing.term} has another entry {index}, of term "
                f"{term}: {index} is committed here"
            )

    def _reject(self, message: AppendEntries) -> None:
        """Say that `prev_index` is missing or another entry, and where to try next.

        The hint skips all entries of terms above the leader's at that index, and
        the leader all of its own above the hint's: one round trip a term, not one
        an entry. Source: Raft paper, 5.3.
        """
        standing, log = self._standing, self._standing.log
        if self._is_swamped or standing.now_ns < self._full_until_ns:
            self.acknowledge(message.round)
            return
        last = min(message.prev_index - 1, log.last_index)
        hint = last_of_term(log, message.prev_term, min(standing.commit, last), last)
        assert standing.leader is not None
        reply = AppendReply(
            standing.term, 0, message.prev_index, hint, log.term(hint) or 0, message.round
        )
        standing.send(standing.leader, reply)
