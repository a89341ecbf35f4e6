"""Messages in words, a line each.

What lives here: how a message reads in a trace. What must never live here: what
it does. Called by: `cluster`. Total. Deterministic.
"""

from __future__ import annotations

from typing import assert_never

from coordinator.raft.messages import (
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


def in_words(message: Message) -> str:
    """Return the message as one line."""
    match message:
        case PreVote(term, last_index, last_term):
            return f"PreVote for term {term}, log ends {last_index}@{last_term}"
        case PreVoteReply(term, granted, own_term):
            return f"PreVoteReply for term {term}: {_yes(granted)}, own term {own_term}"
        case RequestVote(term, last_index, last_term, transfer):
            why = ", told to by the leader" if transfer else ""
            return f"RequestVote term {term}, log ends {last_index}@{last_term}{why}"
        case VoteReply(term, granted):
            return f"VoteReply term {term}: {_yes(granted)}"
        case AppendEntries():
            return _append(message)
        case Beat(term, round_):
            return f"Beat term {term}{_round(round_)}"
        case AppendReply(term, match, rejected, hint, hint_term, round_):
            said = f"not at {rejected}, try {hint}@{hint_term}" if rejected else f"holds {match}"
            return f"AppendReply term {term}: {said}{_round(round_)}"
        case InstallSnapshot():
            end = message.offset + len(message.data)
            what = f"bytes {message.offset}-{end}" if message.data else f"at {message.offset}?"
            return (
                f"InstallSnapshot term {message.term}: ..{message.index}@{message.index_term}, "
                f"{what} of {message.size}{_round(message.round)}"
            )
        case SnapshotReply(term, index, offset, round_):
            return f"SnapshotReply term {term}: ..{index}, has {offset}{_round(round_)}"
        case TimeoutNow(term):
            return f"TimeoutNow term {term}"
        case _:
            assert_never(message)


def _append(message: AppendEntries) -> str:
    entries = " ".join(f"{entry.index}@{entry.term}" for entry in message.entries)
    if len(message.entries) > 3:
        first, last = message.entries[0], message.entries[-1]
        entries = f"{first.index}@{first.term} .. {last.index}@{last.term}"
    what = f"+ {entries}" if entries else "heartbeat"
    return (
        f"AppendEntries term {message.term}: {message.prev_index}@{message.prev_term} {what}, "
        f"commit {message.commit}{_round(message.round)}"
    )


def _yes(granted: bool) -> str:
    return "yes" if granted else "no"


def _round(round_: int) -> str:
    return f" #{round_}" if round_ else ""
