"""A disk that fills up or fails at one operation of a node's life, each in turn.

Generators of complaints, like `damage`. Every life is the same but for the
fault, so "the 17th write" names a place.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

from chaos.suites.storage import StorageNode
from chaos.suites.storage_model import StorageModel, Violation
from chaos.worlds.faulty import FaultyFiles
from chaos.worlds.hooks import Hook
from raftbatch.errors import DiskFailed, Fatal
from tests.storage.story import ProcessFiles, scratch

NEEDS_ROOM = ("write", "allocate", "create", "rename", "make_directory", "lock")
"""Operations that a full disk refuses."""
SYNCS = ("datasync", "sync_directory")

_TURNS = 50
_SEED = "faults 10"  # a short life that does everything there is to do


class _Nth:
    """Fails the n-th operation of some kinds, or all from it on.

    Attributes:
        seen: how many there were, of each kind and kind of file.
        met: whether one was failed.
    """

    def __init__(self, kinds: tuple[str, ...], at: int, error: int, onwards: bool) -> None:
        self._kinds, self._at, self._error, self._onwards = kinds, at, error, onwards
        self._count = 0
        self.seen: Counter[tuple[str, str]] = Counter()
        self.met = ""

    def __call__(self, operation: str, path: str) -> None:
        """Count, and raise if this is the one."""
        if operation not in self._kinds:
            return
        self._count += 1
        name = Path(path).name
        self.seen[operation, name.partition("-")[0].removesuffix(".tmp")] += 1
        if self._count == self._at or (self._onwards and self._count > self._at):
            self.met = self.met or f"{operation} of {name}"
            raise OSError(self._error, os.strerror(self._error))  # writes and syncs name no file


class _Life:
    """A data directory, and one process after another on it.

    Attributes:
        directory: the data directory.
        model: of all that was said to be durable.
    """

    def __init__(self, directory: Path, fault: Hook) -> None:
        self.model = StorageModel()
        self.directory = str(directory / "data")
        self._processes = ProcessFiles()
        self._files = FaultyFiles(self._processes, fault)
        self.lives = 0
        self.start()

    def start(self) -> None:
        """Begin another process; the one before dies."""
        self._processes.die()
        rng = Random(f"{_SEED} {self.lives}")
        self.lives += 1
        self.node = StorageNode(self._files, self.directory, rng, self.model.take)

    def open(self) -> None:
        """Open, and hold it against the model."""
        self.node.create()
        self.node.open()
        self.node.hold_against(self.model)

    def work(self, turns: int = _TURNS) -> None:
        """Work for a while."""
        for _ in range(turns):
            self.node.turn()
        self.node.step()  # the news of the last operation

    def heal(self) -> None:
        """No operation fails any more."""
        self._files.fault = None

    def finish(self) -> str | None:
        """With the fault gone, go on, and be complete here and in the next life; else say why."""
        try:
            self.node.settle()
            self.node.hold_against(self.model)
            refused = self.node.refused
            self.work(3)
            self.node.settle()
            if self.node.refused > refused:
                return "there is room again, but something was refused"
            self.start()
            self.open()
        except (Fatal, Violation) as error:
            return f"{type(error).__name__} after all was well again: {error}"
        finally:
            self.end()
        return None

    def end(self) -> None:
        """The process dies."""
        self._processes.die()


def operations(kinds: tuple[str, ...]) -> tuple[Counter[tuple[str, str]], StorageModel]:
    """Return which operations a life has, and all it says."""
    hook = _Nth(kinds, -1, 0, False)
    with scratch() as directory:
        life = _Life(directory, hook)
        life.open()
        life.work()
        life.end()
    return hook.seen, life.model


def full_disk(onwards: bool, killed: bool = False) -> Iterator[str]:
    """Let the disk be full at each operation in turn, once or until space returns.

    A node that runs must go on: it refuses entries, and nothing else happens. One
    that starts may refuse to.

    Args:
        onwards: it stays full.
        killed: the node is killed then, and opened while it is full still.
    """

    def outcome(life: _Life, hook: _Nth) -> str | None:
        running = False
        try:
            life.open()
            running = True
            life.work()
        except Fatal as error:
            if running:
                return f"it stops though there is but no room: {error}"
        if killed:
            life.start()
            try:
                life.open()
                running = True
            except Fatal:
                running = False
        life.heal()
        if not running:
            life.start()
            life.open()
        return life.finish()

    yield from _each(NEEDS_ROOM, errno.ENOSPC, onwards, outcome)


def failed_syncs(error: int) -> Iterator[str]:
    """Let each sync fail in turn: the node must stop, and its successor has everything."""
    yield from _each(SYNCS, error, False, _must_stop)


def failed_writes() -> Iterator[str]:
    """Let each write fail in turn for another reason than room: the node must stop."""
    yield from _each(NEEDS_ROOM, errno.EIO, False, _must_stop)


def _must_stop(life: _Life, hook: _Nth) -> str | None:
    """Work until the node stops; return why that, or what came after, is wrong."""
    running = False
    try:
        life.open()
        running = True
        life.work()
        if hook.met:
            return "it goes on as if nothing had happened"
    except Fatal as stopped:
        if running and not isinstance(stopped, DiskFailed):
            return f"it stops with another error: {stopped!r}"
        if running and life.directory not in str(stopped):
            return f"it does not say which file it is about: {stopped}"
    if running and (failure := life.node.data.journal.failure):
        try:
            life.node.data.journal.append(1 << 40, b"")
        except Fatal as refused:
            if refused is not failure:
                return f"it stopped, and now names another reason: {refused}"
        else:
            return "it stopped, but takes an entry"
    life.heal()
    life.start()
    life.open()
    return life.finish()


def _each(
    kinds: tuple[str, ...],
    error: int,
    onwards: bool,
    outcome: Callable[[_Life, _Nth], str | None],
) -> Iterator[str]:
    """Take one life for each operation there is, until a life has not so many."""
    for number in count(1):
        hook = _Nth(kinds, number, error, onwards)
        with scratch() as directory:
            life = _Life(directory, hook)
            try:
                complaint = outcome(life, hook)
            except (Fatal, Violation) as problem:
                complaint = f"{type(problem).__name__}: {problem}"
            finally:
                life.end()
        if complaint:
            yield f"{os.strerror(error)} at operation {number}, {hook.met}: {complaint}"
        if not hook.met:
            return
