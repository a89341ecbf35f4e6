"""Snapshots on a disk that does as it is told: what is written is read back; who may do what."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.worlds.disk import SimDisk
from coordinator.raft.snapshots import (
    SnapshotLimits,
    SnapshotMeta,
    SnapshotReader,
    Snapshots,
    SnapshotWriter,
)
from raftbatch.errors import (
    CannotStart,
    Corrupt,
    InvalidRequest,
    Invariant,
    PayloadTooLarge,
)
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealFiles
from raftbatch.world import Files, Network, Workers, join

DIRECTORY = "data/snapshots"
IDENTITY = Identity(ClusterId("c" * 32), NodeId("n1"), 1)
MIB = 1 << 20
LIMITS = SnapshotLimits(snapshot_bytes_max=8 * MIB)


class DiskWorld:
    """A world of which only files, clock and entropy may be used."""

    def __init__(self, files: Files, seed: int = 0) -> None:
        self.files = files
        self.clock = self
        self.entropy = self
        self._rng = Random(seed)

    def monotonic_ns(self) -> int:
        raise AssertionError("nothing here is timed")

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def random_bytes(self, length: int) -> bytes:
        return self._rng.randbytes(length)

    @property
    def workers(self) -> Workers:
        raise AssertionError("snapshots start no thread")

    @property
    def network(self) -> Network:
        raise AssertionError("snapshots open no connection")


def open_snapshots(
    files: Files, chunk_bytes: int = MIB, identity: Identity = IDENTITY, seed: int = 0
) -> Snapshots:
    """Open the test's directory."""
    limits = SnapshotLimits(8 * MIB, chunk_bytes)
    return Snapshots.open(DiskWorld(files, seed), DIRECTORY, identity, limits)


def write_all(writer: SnapshotWriter, content: bytes, piece_bytes: int = MIB) -> SnapshotMeta:
    """Write the content in pieces, and finish."""
    for start in range(0, len(content), piece_bytes):
        writer.write(content[start : start + piece_bytes])
    return writer.finish()


def read_all(reader: SnapshotReader, offset: int = 0, length_max: int = MIB) -> bytes:
    """Read to the end, as a sender does."""
    parts = []
    while part := reader.read(offset, length_max):
        assert len(part) <= length_max
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def content_of(snapshots: Snapshots, meta: SnapshotMeta) -> bytes:
    """Read one of the snapshots."""
    with snapshots.read(meta) as reader:
        return read_all(reader)


def new_disk() -> SimDisk:
    return SimDisk(Random(0))


def path_of(meta: SnapshotMeta) -> str:
    return join(DIRECTORY, f"snapshot-{meta.index:020d}-{meta.term:020d}")


def test_an_empty_directory_is_made_and_holds_no_snapshot() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk)
    assert snapshots.newest is None
    assert snapshots.all == ()
    assert disk.list(DIRECTORY) == []


@given(
    pieces=st.lists(st.binary(max_size=50), max_size=10),
    chunk_bytes=st.integers(1, 64),
    length_max=st.integers(1, 80),
    config=st.binary(max_size=20),
)
def test_what_is_written_is_read_back_and_survives_a_restart(
    pieces: Sequence[bytes], chunk_bytes: int, length_max: int, config: bytes
) -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk, chunk_bytes)
    writer = snapshots.begin(7, 3, config)
    for piece in pieces:
        writer.write(piece)
    meta = writer.finish()
    content = b"".join(pieces)
    assert writer.received == meta.content_bytes == len(content)
    assert (meta.index, meta.term, meta.config) == (7, 3, config)
    assert meta.chunks == -(-len(content) // chunk_bytes)
    assert meta.checksum == hashlib.sha256(content).digest()
    assert meta.file_bytes == len(disk.read(path_of(meta)))
    # Another setting of chunk_bytes reads it all the same.
    for reopened in (snapshots, open_snapshots(disk, 5)):
        assert reopened.all == (meta,)
        with reopened.read(meta) as reader:
            assert read_all(reader, 0, length_max) == content


@pytest.mark.parametrize("length", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB])
@pytest.mark.parametrize("piece_bytes", [MIB, MIB - 7])
def test_content_around_a_mebibyte_is_read_back(length: int, piece_bytes: int) -> None:
    snapshots = open_snapshots(new_disk())
    content = Random(length).randbytes(length)
    meta = write_all(snapshots.begin(1, 1, b""), content, piece_bytes)
    assert meta.chunks == -(-length // MIB)
    assert content_of(snapshots, meta) == content


def test_the_real_file_system_does_the_same(tmp_path: Path) -> None:
    content = Random(1).randbytes(3 * MIB + 5)
    where = f"{tmp_path}/data/snapshots"
    snapshots = Snapshots.open(DiskWorld(RealFiles()), where, IDENTITY, LIMITS)
    write_all(snapshots.begin(1, 1, b"old"), b"old")
    meta = write_all(snapshots.begin(2, 1, b"new"), content)
    again = Snapshots.open(DiskWorld(RealFiles()), where, IDENTITY, LIMITS)
    assert again.newest == meta
    assert content_of(again, meta) == content
    again.prune(2)
    assert RealFiles().list(where) == [path_of(meta).rpartition("/")[2]]


def test_reading_goes_on_from_any_offset() -> None:
    snapshots = open_snapshots(new_disk(), 16)
    content = Random(2).randbytes(100)
    meta = write_all(snapshots.begin(1, 1, b""), content)
    with snapshots.read(meta) as reader:
        for offset in range(len(content) + 1):
            assert read_all(reader, offset, 7) == content[offset:]
            assert read_all(reader, offset) == content[offset:]
        for offset, length_max in ((-1, 1), (len(content) + 1, 1), (0, 0)):
            with pytest.raises(InvalidRequest):
                reader.read(offset, length_max)


def test_a_transfer_goes_on_where_it_broke() -> None:
    leader, follower = open_snapshots(new_disk(), 16), open_snapshots(new_disk(), 24, seed=1)
    content = Random(3).randbytes(200)
    meta = write_all(leader.begin(9, 2, b"config"), content)
    writer = follower.begin(9, 2, b"config")
    while writer.received < meta.content_bytes:
        with leader.read(meta) as reader:  # the connection breaks after each piece
            writer.write(reader.read(writer.received, 11))
    received = writer.finish(meta.checksum)
    assert content_of(follower, received) == content
    assert received.checksum == meta.checksum


def test_a_transfer_that_mixed_two_snapshots_is_refused() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk)
    writer = snapshots.begin(9, 2, b"")
    writer.write(b"half of one and half of another")
    with pytest.raises(InvalidRequest):
        writer.finish(hashlib.sha256(b"one whole").digest())
    assert disk.list(DIRECTORY) == []
    assert write_all(snapshots.begin(9, 2, b""), b"one whole").index == 9


def test_a_written_buffer_may_be_reused() -> None:
    snapshots = open_snapshots(new_disk(), 16)
    writer = snapshots.begin(1, 1, b"")
    buffer = bytearray(b"12345678")
    for _ in range(3):
        writer.write(memoryview(buffer))
    buffer[:] = b"........"
    assert content_of(snapshots, writer.finish()) == b"12345678" * 3


def test_more_than_a_mebibyte_at_once_is_refused_and_the_writer_goes_on() -> None:
    snapshots = open_snapshots(new_disk())
    writer = snapshots.begin(1, 1, b"")
    writer.write(b"before ")
    with pytest.raises(PayloadTooLarge):
        writer.write(bytes(MIB + 1))
    writer.write(b"after")
    assert content_of(snapshots, writer.finish()) == b"before after"


def test_a_snapshot_over_the_limit_is_given_up_and_the_older_one_stays() -> None:
    disk = new_disk()
    world = DiskWorld(disk)
    snapshots = Snapshots.open(world, DIRECTORY, IDENTITY, SnapshotLimits(100, 16))
    old = write_all(snapshots.begin(1, 1, b""), bytes(100))
    writer = snapshots.begin(2, 1, b"")
    writer.write(bytes(60))
    with pytest.raises(PayloadTooLarge, match="snapshot_bytes_max, 100 bytes"):
        writer.write(bytes(41))
    assert writer.ended
    assert disk.list(DIRECTORY) == [path_of(old).rpartition("/")[2]]
    assert snapshots.newest == old
    with pytest.raises(Invariant):
        writer.write(b"")
    write_all(snapshots.begin(2, 1, b""), b"smaller")


def test_a_configuration_over_the_limit_is_refused() -> None:
    snapshots = open_snapshots(new_disk())
    with pytest.raises(PayloadTooLarge):
        snapshots.begin(1, 1, bytes((1 << 16) + 1))
    config = bytes(1 << 16)
    assert write_all(snapshots.begin(1, 1, config), b"").config == config


def test_the_largest_numbers_fit_into_a_header_and_a_name() -> None:
    disk = new_disk()
    most = (1 << 63) - 1
    identity = Identity(ClusterId("f" * 32), NodeId("n" * 63), most)
    snapshots = open_snapshots(disk, identity=identity)
    meta = write_all(snapshots.begin(most, most, bytes(1 << 16)), b"x")
    assert open_snapshots(disk, identity=identity).newest == meta


@pytest.mark.parametrize("limits", [(-1, 1), (1, 0), (1, MIB + 1)])
def test_limits_out_of_range_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        SnapshotLimits(*limits)


def test_one_snapshot_is_written_at_a_time() -> None:
    snapshots = open_snapshots(new_disk())
    writer = snapshots.begin(1, 1, b"")
    with pytest.raises(Invariant):
        snapshots.begin(2, 1, b"")
    writer.abort()
    writer.abort()
    writer = snapshots.begin(2, 1, b"")
    writer.finish()
    writer.abort()  # harmless: it is finished
    for call in (lambda: writer.write(b"x"), writer.finish):
        with pytest.raises(Invariant):
            call()
    assert [meta.index for meta in snapshots.all] == [2]


def test_a_snapshot_as_old_as_the_newest_is_refused() -> None:
    snapshots = open_snapshots(new_disk())
    for index, term in ((0, 1), (1, 0)):
        with pytest.raises(Invariant):
            snapshots.begin(index, term, b"")
    write_all(snapshots.begin(5, 3, b""), b"")
    for index, term in ((5, 3), (4, 3), (6, 2)):
        with pytest.raises(Invariant, match="index 5, term 3"):
            snapshots.begin(index, term, b"")


def test_pruning_keeps_what_is_asked_for_and_always_the_newest() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk)
    metas = [write_all(snapshots.begin(index, 1, b""), b"x") for index in (10, 20, 30)]
    snapshots.prune(10)
    assert snapshots.all == tuple(metas)
    snapshots.prune(20)
    assert snapshots.all == tuple(metas[1:])
    snapshots.prune(99)
    assert snapshots.all == tuple(metas[2:])
    assert open_snapshots(disk).all == snapshots.all
    with pytest.raises(Invariant):
        snapshots.read(metas[0])


def test_what_is_being_read_is_removed_when_its_last_reader_is_closed() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk, 2)
    old = write_all(snapshots.begin(10, 1, b""), b"old")
    write_all(snapshots.begin(20, 1, b""), b"new")
    first, second = snapshots.read(old), snapshots.read(old)
    snapshots.prune(20)
    first.close()
    first.close()
    assert disk.exists(path_of(old))
    assert read_all(second) == b"old"
    second.close()
    assert not disk.exists(path_of(old))
    assert [meta.index for meta in snapshots.all] == [20]
    with pytest.raises(Invariant):
        second.read(0, 1)


def test_an_older_snapshot_is_verified_when_it_is_used() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk, 16)
    old = write_all(snapshots.begin(10, 1, b""), bytes(100))
    write_all(snapshots.begin(20, 1, b""), bytes(100))
    disk.flip_bit(path_of(old), old.file_bytes // 2, 3)
    snapshots = open_snapshots(disk, 16)
    with pytest.raises(Corrupt, match="checksum of chunk"):
        snapshots.read(old)
    snapshots.prune(20)  # the reader that failed holds nothing
    assert disk.list(DIRECTORY) == [f"snapshot-{20:020d}-{1:020d}"]


def test_what_this_life_has_written_is_not_verified_again() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk)
    meta = write_all(snapshots.begin(10, 1, b""), bytes(3 * MIB))
    with snapshots.read(meta):
        pass
    assert sum(" read " in line for line in list(disk.trace)[-3:]) == 2  # its header and footer


def test_a_snapshot_of_another_node_is_refused_by_name() -> None:
    disk = new_disk()
    write_all(open_snapshots(disk).begin(1, 1, b""), b"")
    for other in (
        Identity(ClusterId("d" * 32), NodeId("n1"), 1),
        Identity(IDENTITY.cluster_id, NodeId("n2"), 1),
        Identity(IDENTITY.cluster_id, NodeId("n1"), 2),
    ):
        with pytest.raises(CannotStart) as refused:
            open_snapshots(disk, identity=other)
        assert str(IDENTITY) in str(refused.value)
        assert str(other) in str(refused.value)


def test_a_stranger_in_the_directory_is_refused_and_hidden_names_are_not_ours() -> None:
    disk = new_disk()
    meta = write_all(open_snapshots(disk).begin(1, 1, b""), b"")
    disk.open(join(DIRECTORY, ".nfs0001"), "create").close()
    assert open_snapshots(disk).newest == meta
    for name in ("notes.txt", "snapshot-1-1", "other.tmp", f"snapshot-{1:020d}-{1:020d}.tmp.tmp"):
        disk.open(join(DIRECTORY, name), "create").close()
        with pytest.raises(CannotStart, match=name):
            open_snapshots(disk)
        disk.remove(join(DIRECTORY, name))


def test_leftovers_of_an_earlier_life_are_cleared() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk)
    meta = write_all(snapshots.begin(1, 1, b""), b"")
    snapshots.begin(2, 1, b"").write(b"half")
    assert len(disk.list(DIRECTORY)) == 2
    disk.crash(power=False)
    assert open_snapshots(disk).all == (meta,)
    assert len(disk.list(DIRECTORY)) == 1


def test_progress_is_told_after_each_chunk() -> None:
    disk = new_disk()
    write_all(open_snapshots(disk, 16).begin(1, 1, b""), bytes(40))
    told: list[tuple[int, int]] = []
    Snapshots.open(
        DiskWorld(disk), DIRECTORY, IDENTITY, LIMITS, lambda done, total: told.append((done, total))
    )
    assert told == [(16, 40), (32, 40), (40, 40)]


def test_a_long_snapshot_is_synced_as_it_grows() -> None:
    disk = new_disk()
    snapshots = open_snapshots(disk, 1)
    writer = snapshots.begin(1, 1, b"")
    syncs = []

    def count(operation: str, path: str) -> None:
        if operation == "datasync":
            syncs.append(writer.received)

    disk.fault = count
    write_all(writer, bytes(100), 1)
    assert syncs == [32, 64, 96, 100]
