"""Snapshots on a disk that loses power: after it the old one is there or the new, never neither.

Each check is a function that returns complaints, so that it can be shown to
complain: of a disk port that forgets a step, and of a writer that skips one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import pytest

from chaos.worlds.disk import Crash, Fault, Faults, PowerLoss, SimDisk, Torn
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.world import Buffer, File, Files, Lock, OpenMode
from tests.unit.test_snapshots import DIRECTORY, content_of, open_snapshots, write_all

Wrap = Callable[[SimDisk], Files]
Step = Literal["opened", "finished", "pruned"]
Way = PowerLoss | Literal["killed"]

CHUNK_BYTES = 600  # more than a sector, so that a chunk can be torn
OLD, NEW = Random(1).randbytes(1000), Random(2).randbytes(1500)
SEEDS = range(10)
WAYS: tuple[Way, ...] = ("killed", "none", "all", "prefix", "scatter")


def plain(disk: SimDisk) -> Files:
    """Hand out the disk as it is."""
    return disk


def disk_with_old() -> SimDisk:
    """Return a disk with a durable snapshot at 10."""
    disk = SimDisk(Random(0))
    write_all(open_snapshots(disk, CHUNK_BYTES).begin(10, 1, b"old"), OLD)
    return disk


@dataclass
class Life:
    """One life of a node that writes a snapshot at 20 and prunes the one at 10."""

    files: Files
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        snapshots = open_snapshots(self.files, CHUNK_BYTES)
        self.steps.append("opened")
        write_all(snapshots.begin(20, 2, b"new"), NEW, 400)
        self.steps.append("finished")
        snapshots.prune(20)
        self.steps.append("pruned")


def complaints_after(disk: SimDisk, life: Life, wrap: Wrap) -> Iterator[str]:
    """Start again and say what is not as promised."""
    snapshots = open_snapshots(wrap(disk), CHUNK_BYTES)
    found = {meta.index: content_of(snapshots, meta) for meta in snapshots.all}
    if any(content != {10: OLD, 20: NEW}.get(index) for index, content in found.items()):
        yield f"other content: {sorted(found)}"
    if "finished" in life.steps and 20 not in found:
        yield "the new snapshot was finished, and is gone"
    if "finished" not in life.steps and 10 not in found:
        yield "the new snapshot was not finished, and the old one is gone"
    if "pruned" in life.steps and 10 in found:
        yield "the old snapshot was pruned, and is back"
    if len(disk.list(DIRECTORY)) != len(found):
        yield f"leftovers: {disk.list(DIRECTORY)}"
    # What this life has seen, it may build on: another power cut must not take it.
    disk.crash(power=True, mode="none")
    again = open_snapshots(disk, CHUNK_BYTES)
    if not set(found) <= {meta.index for meta in again.all}:
        yield f"there were {sorted(found)}, and after a power cut there are {again.all}"
    if again.newest and again.newest.index < 30:
        write_all(again.begin(30, 2, b""), b"and on")


def crash_everywhere(wrap: Wrap = plain, seeds: Sequence[int] = SEEDS) -> list[str]:
    """Crash before, in the midst of and after every operation, in every way; return complaints."""
    complaints = []
    base = disk_with_old()
    whole = base.clone()
    Life(wrap(whole)).run()
    for operation in range(1, whole.operations - base.operations + 2):
        for kind in ("before", "torn", "after"):
            for mode in WAYS:
                for seed in seeds:
                    disk = base.clone(Random(seed))
                    rule = Faults(Fault("any", operation, Torn if kind == "torn" else Crash))
                    if kind == "after":
                        disk.fault_after = rule
                    else:
                        disk.fault = rule
                    complaints += [
                        f"operation {operation}, {kind}, {mode}, seed {seed}: {complaint}"
                        for complaint in crash_once(disk, wrap, mode)
                    ]
    return complaints


def crash_once(disk: SimDisk, wrap: Wrap, mode: Way, again_at: int = 0) -> list[str]:
    """Live until the disk says so, crash, and start again; crash in that too, where asked to."""
    life = Life(wrap(disk))
    die(disk, life.run, mode)
    if again_at:
        disk.fault = Faults(Fault("any", again_at, Crash))
        die(disk, lambda: open_snapshots(wrap(disk), CHUNK_BYTES), mode)
    try:
        return list(complaints_after(disk, life, wrap))
    except (Fatal, RaftbatchError) as error:
        return [repr(error)]


def die(disk: SimDisk, run: Callable[[], object], mode: Way) -> None:
    """Run until the disk says so, or to the end, and crash."""
    try:
        run()
    except Crash:
        pass
    disk.fault = disk.fault_after = None
    if mode == "killed":
        disk.crash(power=False)
    else:
        disk.crash(power=True, mode=mode)


@pytest.mark.slow
def test_a_crash_while_starting_again_does_no_more_harm() -> None:
    base = disk_with_old()
    ways: list[Way] = ["killed", "scatter"]
    for operation in range(1, 29):
        for again_at in range(1, 15):
            for mode in ways:
                disk = base.clone(Random(operation))
                disk.fault = Faults(Fault("any", operation, Torn))
                assert crash_once(disk, plain, mode, again_at) == []


@pytest.mark.slow
def test_a_crash_anywhere_leaves_the_old_snapshot_or_the_new() -> None:
    assert crash_everywhere() == []


class ThroughFile:
    """A file that hands everything on."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.read_at = file.read_at
        self.allocate = file.allocate
        self.truncate = file.truncate
        self.uncache = file.uncache
        self.size = file.size
        self.close = file.close

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.file.write_at(offset, buffers)

    def datasync(self) -> None:
        self.file.datasync()


class Through:
    """Files that hand everything on; mutants override what they break."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.exists = disk.exists
        self.make_directory = disk.make_directory
        self.space_left = disk.space_left

    def list(self, path: str) -> list[str]:
        return self.disk.list(path)

    def lock(self, path: str) -> Lock:
        return self.disk.lock(path)

    def open(self, path: str, mode: OpenMode) -> File:
        return self.disk.open(path, mode)

    def remove(self, path: str) -> None:
        self.disk.remove(path)

    def rename(self, source: str, target: str) -> None:
        self.disk.rename(source, target)

    def sync_directory(self, path: str) -> None:
        self.disk.sync_directory(path)


class ForgetsDirectories(Through):
    """The names are never synced."""

    def sync_directory(self, path: str) -> None:
        pass


class ForgetsTheFirstDirectory(Through):
    """What a start finds is not synced."""

    synced = False

    def sync_directory(self, path: str) -> None:
        if self.synced:
            super().sync_directory(path)
        self.synced = True


class ForgetsContent(Through):
    """The content is never synced."""

    def open(self, path: str, mode: OpenMode) -> File:
        class Unsynced(ThroughFile):
            def datasync(self) -> None:
                pass

        return Unsynced(self.disk.open(path, mode))


class RenamesBeforeSync(ForgetsContent):
    """The content is synced, but only when it has got its name."""

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        for name in self.disk.list(path):
            self.disk.open(f"{path}/{name}", "write").datasync()


class RemovesTooEarly(Through):
    """The old snapshot goes when the new one gets its name."""

    def rename(self, source: str, target: str) -> None:
        for name in self.disk.list(DIRECTORY):
            if not name.endswith(".tmp"):
                self.disk.remove(f"{DIRECTORY}/{name}")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if self.disk.exists(path):
            super().remove(path)


def test_the_wrapper_of_the_mutants_changes_nothing_by_itself() -> None:
    assert crash_everywhere(Through, seeds=[0]) == []


@pytest.mark.parametrize(
    ("mutant", "complaint"),
    [
        (ForgetsDirectories, "the new snapshot was finished, and is gone"),
        (ForgetsTheFirstDirectory, "after a power cut"),
        (ForgetsContent, "Corrupt"),
        (RenamesBeforeSync, "Corrupt"),
        (RemovesTooEarly, "and the old one is gone"),
    ],
)
def test_the_crashes_show_each_forgotten_step(mutant: Wrap, complaint: str) -> None:
    assert any(complaint in one for one in crash_everywhere(mutant, seeds=[0]))
