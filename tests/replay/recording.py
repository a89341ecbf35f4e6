"""A recording: a node's data directory as a version of the product wrote it, and its digests.

    vN/journal/      every entry from the first on, as the journal's own files
    vN/snapshots/    one snapshot from the middle of the log
    vN/digests.json  at some indexes, the rolling digest and the hash of the whole state

A recording is written once and never changed: what a node has on its disk must mean
the same for ever. What lives here: writing one (`python -m tests.replay.recording v2`
makes a new one), and opening one by the product's own code. Called by: `test_replay`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import get_args

from chaos.worlds.stepped import SeededEntropy, StepClock, StepWorkers
from coordinator.core.effects import Effect, Verdict
from coordinator.core.snapshot import Capture
from coordinator.core.state import TABLES, State
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.membership import encode, founders
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.kinds import OutcomeKind
from raftbatch.realworld import RealFiles
from raftbatch.world import Network
from tests.unit.core.drawing import Drawing

PLACE = Path(__file__).parent
DIGESTS = "digests.json"

_N1 = NodeId("n1")
_IDENTITY = Identity(ClusterId("0123456789abcdef" * 2), _N1, 1)
_FOUNDERS = founders({_N1: "n1:1"})
_SNAPSHOT_BYTES_MAX = 1 << 20
_LIMITS = StorageLimits(
    JournalLimits(
        segment_bytes=32 << 10,
        entry_bytes_max=16 << 10,
        group_bytes_max=16 << 10,
        pending_bytes_max=1 << 20,
        tail_bytes_max=1 << 20,
        disk_low_bytes=6 << 20,
        disk_reserve_bytes=4 << 20,
        snapshot_bytes_max=_SNAPSHOT_BYTES_MAX,
    ),
    SnapshotLimits(_SNAPSHOT_BYTES_MAX, chunk_bytes=4096),
    RetentionLimits(log_retention_bytes=1 << 20, log_retention_ms=0, trailing_entries=0),
)
KINDS: tuple[type, ...] = get_args(r.Record)
"""Every record that there is."""

_STEPS = 420
_DIGEST_EVERY = 25


class _World:
    """The real files; all else is stepped, so that a recording is the same wherever it is made."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.entropy = SeededEntropy(Random("recording"))
        self.files = RealFiles()
        self.workers = StepWorkers()

    @property
    def network(self) -> Network:
        """None."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Read:
    """What a data directory holds.

    Attributes:
        entries: all of its log.
        snapshot: the description of its snapshot.
        content: of that.
    """

    entries: tuple[Entry, ...]
    snapshot: SnapshotMeta
    content: bytes


def read(directory: Path) -> Read:
    """Open a data directory as a node does, and read all of it."""
    world = _World()
    found: list[Entry] = []

    def done(future: Future[tuple[Entry, ...]]) -> None:
        found.extend(future.result())

    data = _open(world, directory)
    journal = data.journal
    while len(found) < journal.last_index:
        before = len(found)
        journal.read(before + 1, 1 << 16, done)
        world.workers.run_all()
        assert len(found) > before
    newest = data.snapshots.newest
    assert newest is not None
    content = b""
    with data.snapshots.read(newest) as reader:
        while len(content) < newest.content_bytes:
            content += reader.read(len(content), 1 << 16)
    data.close()
    return Read(tuple(found), newest, content)


def install(replica: Replica, recorded: Read) -> None:
    """Give a replica the recording's snapshot, cut otherwise than it was written."""

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(recorded.content), 1000):
            yield recorded.content[start : start + 1000]

    asyncio.run(replica.install(recorded.snapshot, chunks()))


def digests(state: State) -> dict[str, str]:
    """Return the digests of a state, as they are recorded."""
    capture = Capture(state)
    found = {"rolling": state.digest.hex(), "state": capture.digest().hex()}
    capture.release()
    return found


def _open(world: _World, directory: Path) -> DataDirectory:
    def failed(error: Exception) -> None:
        raise error

    return DataDirectory.open(
        world, str(directory), _LIMITS, on_durable=lambda lsn: None, on_failed=failed
    )


def _drawn() -> tuple[Drawing, int]:
    """Return a drawn run that has all there is, and begins behind the membership.

    Also the index at which to take a snapshot: one with rows in every table, and outcomes
    of every kind.
    """
    for seed in range(1000):
        run, middle = Drawing(seed), 0
        effects: set[type] = set()
        for step in range(_STEPS):
            effects |= {type(each) for each in run.step().effects}
            kinds = {each.kind for each in run.state.ended.values()}
            is_rich = all(getattr(run.state, table) for table in TABLES)
            if step > _STEPS * 0.4 and not middle and is_rich and kinds == set(OutcomeKind):
                middle = run.state.index
        done = {name for name, verdicts in run.seen.items() if Verdict.OK in verdicts}
        is_whole = done == {each.__name__ for each in KINDS} and effects == set(get_args(Effect))
        if is_whole and run.entries[0][0] == 2 and 0 < middle < run.state.index * 0.6:
            return run, middle
    raise AssertionError("no run has all that a recording must have")


def record(directory: Path) -> None:
    """Write a new recording.

    Raises:
        FileExistsError: there is one of that name: it is never written again.
    """
    directory.mkdir()
    run, middle = _drawn()
    world = _World()
    DataDirectory.create(world, str(directory), _IDENTITY, _LIMITS, _FOUNDERS)
    data = _open(world, directory)
    journal, replica = data.journal, Replica()
    found: dict[str, dict[str, str]] = {}
    for index, term, content in run.entries:
        if term != journal.hard_state.term:
            journal.set_hard_state(term, _N1)
        while journal.last_index < index - 1:
            journal.append(term, b"")  # the log's own
        journal.append(term, content)
        journal.flush()
        world.workers.run_all()
        replica.apply(Entry(index, term, content))
        if index % _DIGEST_EVERY == 0 or index in (middle, run.state.index):
            found[str(index)] = digests(replica.state)
        if index == middle:
            writer = data.snapshots.begin(index, term, encode(_FOUNDERS))
            for chunk in Capture(replica.state).chunks():
                writer.write(chunk)
            writer.finish()
    assert replica.state.digest == run.state.digest
    data.close()
    (directory / "lock").unlink()
    text = json.dumps({"last": run.state.index, "digests": found}, indent=1)
    (directory / DIGESTS).write_text(text + "\n", encoding="utf-8")


def copied(name: str, to: Path) -> Path:
    """Copy a recording, so that opening it changes nothing, and return where it is."""
    return Path(shutil.copytree(PLACE / name, to / name))


if __name__ == "__main__":
    record(PLACE / sys.argv[1])
