"""The points in the product's work at which a simulated process may die, by name.

    segment.datasync before          a group of the journal is written, and not synced yet
    snapshot.rename after            a snapshot has its name, which is not durable yet
    send.VoteReply before            a vote is durable, and nobody knows of it

What lives here: the names, and which of them a long run must reach, so that none is
left out without a word. What must never live here: a fault (`chaos.faults`). Called
by: `chaos.worlds.sim`, `chaos.faults`, suites, `chaos.__main__`. Total. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

_AT: Final = "at "  # begins the name of a count of deaths at a point
_FILES: Final = (("/mark", "mark"), ("/segment-", "segment"), ("/snapshot-", "snapshot"))
_FOLDERS: Final = ("journal", "snapshots")

_CHANGES: Final = (
    "segment.create",
    "segment.allocate",
    "segment.write",
    "segment.datasync",
    "segment.rename",
    "segment.remove",
    "journal.sync_directory",
    "mark.write",
    "snapshot.create",
    "snapshot.write",
    "snapshot.datasync",
    "snapshot.read",
    "snapshot.rename",
    "snapshot.remove",
    "snapshots.sync_directory",
)
_TORN: Final = ("segment.allocate", "segment.write", "mark.write", "snapshot.write")
_MESSAGES: Final = (
    "PreVote",
    "PreVoteReply",
    "RequestVote",
    "VoteReply",
    "AppendEntries",
    "AppendReply",
    "Beat",
    "InstallSnapshot",
    "SnapshotReply",
    "TimeoutNow",
)

POINTS: Final = (
    *(f"{change} {when}" for change in _CHANGES for when in ("before", "after")),
    *(f"{change} within" for change in _TORN),
    *(f"send.{message} {when}" for message in _MESSAGES for when in ("before", "after")),
)
"""Those at which something may be lost, or be known to some and not to others."""


def disk_point(operation: str, path: str, when: str) -> str:
    """Return the name of a moment of a disk's operation: `before`, `within` or `after` it."""
    file = next((name for part, name in _FILES if part in path), None)
    folder = next((name for name in _FOLDERS if path.endswith(f"/{name}")), "data")
    return f"{file or folder}.{operation} {when}"


def send_point(message: object, when: str) -> str:
    """Return the name of a moment around a send."""
    return f"send.{type(message).__name__} {when}"


def told(points: Iterable[Counter[str]]) -> dict[str, int]:
    """Return deaths at points as a suite counts them."""
    total = sum(points, Counter[str]())
    return {f"{_AT}{name}": count for name, count in sorted(total.items())}


def without_points(counts: Mapping[str, int]) -> dict[str, int]:
    """Return a suite's counts with how many of `POINTS` were reached in place of each."""
    left = {name: count for name, count in counts.items() if not name.startswith(_AT)}
    if len(left) < len(counts):
        left["points"] = len(POINTS) - len(missed(counts))
    return left


def missed(counts: Mapping[str, int]) -> list[str]:
    """Return those of `POINTS` at which nobody has died."""
    return [point for point in POINTS if f"{_AT}{point}" not in counts]
