"""What coordinators say to each other.

Every message of consensus carries the sender's term, but for pre-votes, which carry
the one it would have. What lives here: the messages. What must never live here: their
bytes (`transport`), or what to do about them. Called by: everything in
`coordinator.raft`. Names are the Raft paper's where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.raft.segments.layout import Entry
from raftbatch.ids import NodeId


@dataclass(frozen=True, slots=True)
class PreVote:
    """Would you vote for me in `term`, one above mine? Binds nobody. Source: thesis, 9.6."""

    term: int
    last_index: int
    last_term: int


@dataclass(frozen=True, slots=True)
class PreVoteReply:
    """The answer for `term`; `own_term` is the voter's, so that a sender behind it learns."""

    term: int
    granted: bool
    own_term: int


@dataclass(frozen=True, slots=True)
class RequestVote:
    """Vote for me in `term`. `transfer`: the leader itself asked for this election."""

    term: int
    last_index: int
    last_term: int
    transfer: bool


@dataclass(frozen=True, slots=True)
class VoteReply:
    """The answer: the voter's term, and whether it voted for the asker in it."""

    term: int
    granted: bool


@dataclass(frozen=True, slots=True)
class AppendEntries:
    """Entries behind `prev_index`, and how far the log is committed; without entries, a heartbeat.

    Attributes:
        term: the leader's.
        prev_index: index before the first entry.
        prev_term: its term.
        entries: in order, without gaps.
        commit: the leader's commit index.
        round: number of the leader's latest heartbeat round; the answer repeats it.
    """

    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...]
    commit: int
    round: int


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat that says nothing of the log, and so may overtake entries that are on their way.

    Without it a leader that streams over a slow link would be silent for as long
    as its window takes. Answered like `AppendEntries`.
    """

    term: int
    round: int


@dataclass(frozen=True, slots=True)
class AppendReply:
    """What a follower holds.

    Attributes:
        term: the follower's; above the leader's it deposes it.
        match: up to here its log is the leader's, durably. 0 says nothing.
        rejected: the `prev_index` at which it is not; 0 for none.
        hint: where to try next, at most `rejected` - 1.
        hint_term: the follower's term there: the leader can skip its own of later ones.
        round: the one it answers; 0 for none.
    """

    term: int
    match: int
    rejected: int
    hint: int
    hint_term: int
    round: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """A piece of a snapshot.

    Attributes:
        term: the leader's.
        index: last index the snapshot replaces.
        index_term: its term.
        config: the membership at that index.
        size: of the whole content, in bytes.
        checksum: of the whole content.
        offset: where `data` begins in it.
        data: at most a mebibyte.
        round: as in `AppendEntries`.
    """

    term: int
    index: int
    index_term: int
    config: bytes
    size: int
    checksum: bytes
    offset: int
    data: bytes
    round: int


@dataclass(frozen=True, slots=True)
class SnapshotReply:
    """How much of the snapshot at `index` the follower has; the next piece begins there."""

    term: int
    index: int
    offset: int
    round: int


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Start an election at once: the leader hands over. Source: thesis, 3.10."""

    term: int


Message = (
    PreVote
    | PreVoteReply
    | RequestVote
    | VoteReply
    | AppendEntries
    | Beat
    | AppendReply
    | InstallSnapshot
    | SnapshotReply
    | TimeoutNow
)
"""What the core is told."""


@dataclass(frozen=True, slots=True)
class Digests:
    """What the sender's replica was at some indexes; beside the log, and no part of consensus.

    It has no term, and the core never sees it: the log hands it to whoever compares.

    Attributes:
        pairs: index and digest, 1 to `DIGESTS_MAX` of them, by rising index.
    """

    pairs: tuple[tuple[int, bytes], ...]


DIGESTS_MAX = 16
"""Pairs of one message: they are told one at a time, and the last few to who has just come."""

PeerMessage = Message | Digests
"""All that crosses a connection of two coordinators."""

TERM_LEAP_MAX = 1 << 32
"""A term so far above a node's own is an error of its sender's. It is approached in such
steps, a message each: nobody is left behind, and room for further elections stays."""

BULK = (AppendEntries, InstallSnapshot)
"""Messages whose order matters, and which may be large: all others may overtake these."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that may leave once the journal is durable up to `lsn`."""

    to: NodeId
    message: Message
    lsn: int
