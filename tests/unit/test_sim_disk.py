"""The simulated disk: as long as nothing fails it is a file system like the real one.

Also its space, locks, hooks and damage; loss of power is in test_sim_power.py.
"""

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.worlds.disk import Crash, Fault, Faults, SimDisk, Torn
from raftbatch.realworld import RealFiles
from raftbatch.world import File, Files, Lock, join

Result = object
Operation = tuple[object, ...]

NAMES = st.sampled_from(["a", "b", "lock", "sub/a", "sub/deep/b", "missing/a", "a/b"])
DIRECTORIES = st.sampled_from(["", "sub", "sub/deep", "missing", "a"])
SIZES = st.integers(0, 3000)
MODES = st.sampled_from(["read", "write", "create", "create"])
INDEXES = st.integers(0, 3)
BUFFERS = st.lists(st.binary(min_size=1, max_size=700), min_size=1, max_size=3)

OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("open"), NAMES, MODES),
    st.tuples(st.just("open"), st.just("sub"), st.sampled_from(["write", "create"])),
    st.tuples(st.just("write_at"), INDEXES, SIZES, BUFFERS),
    st.tuples(st.just("read_at"), INDEXES, SIZES, SIZES),
    st.tuples(st.just("allocate"), INDEXES, SIZES),
    st.tuples(st.just("truncate"), INDEXES, st.integers(-1, 3000)),
    st.tuples(st.sampled_from(["size", "close", "datasync"]), INDEXES),
    st.tuples(st.sampled_from(["exists", "list", "space_left"]), NAMES | DIRECTORIES),
    st.tuples(st.just("sync_directory"), NAMES | DIRECTORIES),
    # Not where a file may be opened: the real world opens a directory for reading, then fails.
    st.tuples(st.just("make_directory"), st.sampled_from(["sub", "sub/deep", "missing/one"])),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("rename"), st.sampled_from(["a", "b"]), st.just("sub")),
    st.tuples(st.just("remove"), NAMES | st.just("sub")),
    st.tuples(st.just("lock"), st.sampled_from(["lock", "a", "sub", "missing/a"])),
    st.tuples(st.just("release"), INDEXES),
)


class Caller:
    """Carries out operations in one file system and keeps what they return."""

    def __init__(self, files: Files, root: str) -> None:
        self.files = files
        self.root = root
        self.opened: list[File] = []
        self.locks: list[Lock] = []

    def call(self, operation: Operation) -> Result:
        """Return the result of one operation, or its error."""
        try:
            return self._call(operation)
        except OSError as error:
            return type(error), error.errno

    def _call(self, operation: Operation) -> Result:
        match operation:
            case ("open", str(name), ("read" | "write" | "create") as mode):
                self.opened.append(self.files.open(self._path(name), mode))
                return None
            case ("lock", str(name)):
                self.locks.append(self.files.lock(self._path(name)))
                return None
            case ("release", int(index)):
                for lock in self.locks[index : index + 1]:
                    lock.release()
                return None
            case ("rename", str(source), str(target)):
                self.files.rename(self._path(source), self._path(target))
                return None
            case ("space_left", str(name)):
                return self.files.space_left(self._path(name)) > 0
            case (str(kind), str(name)):
                result: Result = getattr(self.files, kind)(self._path(name))
                return result
            case (str(kind), int(index), *arguments):
                if index >= len(self.opened):
                    return None
                result = getattr(self.opened[index], kind)(*arguments)
                return result
            case _:
                raise AssertionError(operation)

    def content(self) -> list[Result]:
        """Return all that the operations can have left."""
        names = ["a", "b", "lock", "sub/a", "sub/deep/b", "missing/a"]
        reads = [lambda f=f: self.opened[f].read_at(0, 10_000) for f in range(len(self.opened))]
        found = [self.call(("list", name)) for name in ("", "sub", "sub/deep")]
        for name in names:
            count = len(self.opened)
            found.append(self.call(("open", name, "read")))
            if len(self.opened) > count:
                found.append(self.opened.pop().read_at(0, 10_000))
        return found + [_try(read) for read in reads]

    def end(self) -> None:
        """Close all."""
        for held in self.opened:
            held.close()
        for lock in self.locks:
            lock.release()

    def _path(self, name: str) -> str:
        return join(self.root, name) if name else self.root


def _try(read: Callable[[], bytes]) -> Result:
    try:
        return read()
    except OSError as error:
        return error.errno


@settings(deadline=None, max_examples=200)
@given(st.lists(OPERATIONS, max_size=30))
def test_sim_disk_equals_the_real_file_system(operations: Sequence[Operation]) -> None:
    disk = SimDisk(Random(0))
    disk.pid = os.getpid()
    with tempfile.TemporaryDirectory() as root:
        simulated, real = Caller(disk, "/"), Caller(RealFiles(), root)
        try:
            for operation in [("make_directory", "sub"), *operations]:
                assert simulated.call(operation) == real.call(operation), operation
            assert simulated.content() == real.content()
        finally:
            real.end()


def make(*names: str, seed: int = 0, capacity: int = 1 << 20) -> SimDisk:
    """Return a disk with empty files, all synced."""
    disk = SimDisk(Random(seed), capacity)
    for name in names:
        disk.open(name, "create").close()
    disk.sync_directory("/")
    return disk


def test_sim_disk_refuses_a_directory_where_a_file_is() -> None:
    disk = make("/a")
    for path in ("/a", "/a/b"):
        with pytest.raises(FileExistsError):
            disk.make_directory(path)


def test_sim_disk_unlinked_file_lives_as_long_as_a_descriptor() -> None:
    disk = make("/a", capacity=4096)
    file = disk.open("/a", "write")
    file.write_at(0, [b"x" * 4096])
    disk.remove("/a")
    assert file.read_at(4000, 200) == b"x" * 96
    assert disk.space_left("/") == 0
    file.close()
    assert disk.space_left("/") == 4096


def test_sim_disk_full_writes_what_fits() -> None:
    disk = make("/a", capacity=1024)
    file = disk.open("/a", "write")
    with pytest.raises(OSError, match="No space left") as caught:
        file.write_at(100, [b"x" * 700, b"y" * 1000])
    assert caught.value.errno == errno.ENOSPC
    assert disk.read("/a") == bytes(100) + b"x" * 700 + b"y" * 224
    file.write_at(0, [b"z" * 1024])  # space once taken is never refused
    disk.capacity = 4096
    file.write_at(1024, [b"z"])
    assert disk.space_left("/") == 2560
    disk.capacity = 512
    assert disk.space_left("/") == 0
    file.truncate(0)
    assert disk.space_left("/") == 512


def test_sim_disk_allocated_space_is_kept_and_a_hole_takes_none() -> None:
    disk = make("/a", "/b", capacity=4096)
    disk.open("/b", "write").truncate(1 << 30)
    file = disk.open("/a", "write")
    file.write_at(512, [b"x" * 512])
    file.allocate(4000)
    assert disk.space_left("/") == 0
    with pytest.raises(OSError, match="No space left"):
        disk.open("/b", "write").write_at(0, [b"y"])
    disk.capacity = 0
    file.write_at(0, [b"z" * 4096])
    assert file.size() == 4096


def test_sim_disk_allocation_beyond_the_space_fails() -> None:
    disk = make("/a", capacity=4096)
    file = disk.open("/a", "write")
    with pytest.raises(OSError, match="No space left"):
        file.allocate(4097)
    assert file.size() <= 4096
    assert disk.read("/a") == bytes(file.size())


def test_sim_disk_lock_names_its_holder_and_dies_with_it() -> None:
    disk = make()
    lock = disk.lock("/lock")
    with pytest.raises(BlockingIOError, match="pid 1"):
        disk.lock("/lock")
    disk.crash(power=False)
    disk.lock("/lock")
    lock.release()  # a dead process's: it must not give up the new one's
    with pytest.raises(BlockingIOError, match="pid 2"):
        disk.lock("/lock")


def test_sim_disk_descriptors_die_with_their_process() -> None:
    disk = make("/a")
    file = disk.open("/a", "write")
    disk.crash(power=False)
    uses: list[Callable[[], object]] = [
        file.size,
        file.datasync,
        lambda: file.read_at(0, 1),
        lambda: file.write_at(0, [b"x"]),
        lambda: file.allocate(1),
        lambda: file.truncate(1),
    ]
    for use in uses:
        with pytest.raises(Crash):
            use()
    file.close()
    assert disk.read("/a") == b""


def test_sim_disk_fault_may_kill_before_or_after_any_operation() -> None:
    for after in (False, True):
        disk = make("/a")
        rule = Faults(Fault("write", 2, Crash))
        disk.fault, disk.fault_after = (None, rule) if after else (rule, None)
        file = disk.open("/a", "write")
        file.write_at(0, [b"1"])
        with pytest.raises(Crash):
            file.write_at(1, [b"2"])
        with pytest.raises(Crash, match="dead"):  # clean-up code reaches nothing any more
            disk.remove("/a")
        file.close()
        disk.crash(power=False)
        assert disk.read("/a") == (b"12" if after else b"1")


def test_sim_disk_failed_or_torn_write_has_written_any_part() -> None:
    for error in (errno.EIO, Torn):
        lengths = set()
        for seed in range(60):
            disk = make("/a", seed=seed)
            disk.fault = Faults(Fault("write", 1, error))
            with pytest.raises((OSError, Torn)):
                disk.open("/a", "write").write_at(0, [b"0123", b"4567"])
            assert b"01234567".startswith(disk.read("/a"))
            lengths.add(len(disk.read("/a")))
        assert lengths == set(range(9))


def test_sim_disk_failed_operation_does_nothing() -> None:
    disk = make("/a")
    disk.fault = Faults(Fault("any", 1, errno.EIO, onwards=True))
    calls: list[Callable[[], object]] = [
        lambda: disk.open("/b", "create"),
        lambda: disk.open("/a", "read"),
        lambda: disk.rename("/a", "/b"),
        lambda: disk.remove("/a"),
        lambda: disk.make_directory("/d"),
        lambda: disk.lock("/lock"),
        lambda: disk.sync_directory("/"),
        lambda: disk.space_left("/"),
        lambda: disk.exists("/a"),
        lambda: disk.list("/"),
    ]
    for call in calls:
        with pytest.raises(OSError, match="injected"):
            call()
    disk.fault = None
    assert disk.list("/") == ["a"]


def test_sim_disk_trace_and_count_tell_what_happened() -> None:
    disk = make()
    count = disk.operations
    disk.open("/a", "create").write_at(5, [b"abc"])
    assert disk.operations == count + 2
    assert [line.split(" ", 1)[1] for line in disk.trace][-2:] == ["create /a", "write /a @5+3"]


def test_sim_disk_damage_lasts() -> None:
    disk = make("/a")
    disk.open("/a", "write").write_at(0, [bytes(range(8))])
    disk.flip_bit("/a", 1, 7)
    disk.zero("/a", 2, 4)
    disk.overwrite("/a", 6, b"xy")
    disk.cut("/a", 7)
    disk.crash(power=True, mode="none")
    assert disk.read("/a") == bytes([0, 0x81, 0, 0, 4, 5]) + b"x"


def test_sim_disk_clone_shares_nothing_and_draws_alike() -> None:
    disk = make("/a")
    disk.open("/a", "write").write_at(0, [b"x" * 4000])
    disk.lock("/lock")
    first, second = disk.clone(), disk.clone()
    for twin in (first, second):
        twin.lock("/lock")
        twin.crash(power=True)
    assert first.read("/a") == second.read("/a")
    first.overwrite("/a", 0, b"other")
    first.open("/b", "create")
    assert not second.exists("/b")
    assert not disk.exists("/b")
    assert disk.read("/a") == b"x" * 4000


def test_sim_disk_large_sparse_file_stays_small() -> None:
    disk = SimDisk(Random(0))
    file = disk.open("/a", "create")
    file.allocate(64 << 20)
    file.write_at(32 << 20, [b"x"])
    file.datasync()
    disk.sync_directory("/")
    disk.crash(power=True)
    assert disk.open("/a", "read").read_at((32 << 20) - 1, 3) == b"\0x\0"
    sectors = [*file.inode.cache.sectors, *file.inode.durable.sectors]
    assert sectors == [(32 << 20) // 512] * 2
