"""Snapshot files that somebody or something has changed: found out, whatever the change.

Never is other content returned than what was written, never does anything but
`Corrupt` or `CannotStart` come out, and never does a file decide how much memory
is used.
"""

import hashlib
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.worlds.disk import SimDisk
from coordinator.raft.blocks import Value, encode_block, identity_values
from coordinator.raft.snapshot_format import (
    FOOTER_BYTES,
    HEADER_BYTES_MAX,
    MAGIC,
    Footer,
    Header,
    encode_chunk_head,
    encode_footer,
    encode_header,
)
from coordinator.raft.snapshots import SnapshotMeta, Snapshots
from raftbatch.errors import CannotStart, Corrupt
from raftbatch.realworld import RealFiles
from tests.unit.test_snapshots import (
    DIRECTORY,
    IDENTITY,
    LIMITS,
    MIB,
    DiskWorld,
    content_of,
    open_snapshots,
    path_of,
    read_all,
    write_all,
)

CHUNK_BYTES = 16
CONTENT = Random(4).randbytes(40)
CHUNK = 8 + CHUNK_BYTES
EMPTY = Footer(0, 0, hashlib.sha256().digest())


def written(content: bytes = CONTENT, seed: int = 0) -> tuple[SnapshotMeta, bytes]:
    """Return a snapshot of three chunks and its file."""
    disk = SimDisk(Random(0))
    snapshots = open_snapshots(disk, CHUNK_BYTES, seed=seed)
    meta = write_all(snapshots.begin(7, 3, b"config"), content)
    return meta, disk.read(path_of(meta))


META, FILE = written()
CHUNKS_AT = META.file_bytes - FOOTER_BYTES - (3 * 8 + 40)


def disk_with(data: bytes, *, newest: bool = True) -> SimDisk:
    """Return a disk on which the file holds that, below an intact newer one or not."""
    disk = SimDisk(Random(0))
    disk.make_directory(DIRECTORY)
    disk.open(path_of(META), "create").write_at(0, [data])
    if not newest:
        header = Header(IDENTITY, 8, 3, 0, CHUNK_BYTES, 1, b"")
        file = disk.open(f"{DIRECTORY}/snapshot-{8:020d}-{3:020d}", "create")
        file.write_at(0, [encode_header(header), encode_footer(1, EMPTY)])
    return disk


def use_older(disk: SimDisk) -> None:
    """Start, and read the snapshot below the newest."""
    snapshots = open_snapshots(disk)
    content_of(snapshots, snapshots.all[0])


def found_out(data: bytes) -> Corrupt:
    """Return how a changed file was found out as the newest, and assert that it is as an older."""
    with pytest.raises(Corrupt) as newest:
        open_snapshots(disk_with(data))
    assert newest.value.path == path_of(META)
    assert 0 <= newest.value.offset <= max(len(data), len(FILE))
    assert "--join" in newest.value.reason
    with pytest.raises(Corrupt) as older:
        use_older(disk_with(data, newest=False))
    assert older.value.path == path_of(META)
    return newest.value


def test_the_unchanged_file_is_read() -> None:
    for newest in (True, False):
        snapshots = open_snapshots(disk_with(FILE, newest=newest))
        assert snapshots.all[0] == META
        assert content_of(snapshots, META) == CONTENT


def test_every_cut_is_found_out() -> None:
    for length in range(len(FILE)):
        found_out(FILE[:length])


@pytest.mark.parametrize("more", [b"\0", b"x" * FOOTER_BYTES, FILE[-FOOTER_BYTES:], FILE])
def test_anything_behind_the_end_is_found_out(more: bytes) -> None:
    found_out(FILE + more)


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_found_out(bit: int) -> None:
    for offset in range(len(FILE)):
        data = bytearray(FILE)
        data[offset] ^= 1 << bit
        found_out(bytes(data))


def test_a_damaged_chunk_is_named_by_its_offset() -> None:
    for number in range(3):
        data = bytearray(FILE)
        data[CHUNKS_AT + number * CHUNK + 9] ^= 1
        damage = found_out(bytes(data))
        assert damage.offset == CHUNKS_AT + number * CHUNK
        assert f"chunk {number}" in damage.reason


def test_chunks_out_of_place_are_found_out() -> None:
    def chunk(data: bytes, number: int) -> bytes:
        return data[CHUNKS_AT + number * CHUNK :][:CHUNK]

    head, tail = FILE[:CHUNKS_AT], FILE[CHUNKS_AT + 2 * CHUNK :]
    first, second = chunk(FILE, 0), chunk(FILE, 1)
    assert head + first + second + tail == FILE
    found_out(head + second + first + tail)
    found_out(head + first + first + tail)
    found_out(head + first + tail)
    found_out(head + first + second + second + tail)


def test_parts_of_another_file_are_found_out() -> None:
    """The same snapshot written again: all is equal but the salt."""
    _, other = written(seed=1)
    assert len(other) == len(FILE)
    for at in (CHUNKS_AT, CHUNKS_AT + CHUNK, len(FILE) - FOOTER_BYTES):
        found_out(FILE[:at] + other[at:])
        found_out(other[:at] + FILE[at:])


def test_a_file_under_another_name_is_found_out() -> None:
    disk = disk_with(FILE)
    disk.rename(path_of(META), f"{DIRECTORY}/snapshot-{9:020d}-{3:020d}")
    with pytest.raises(Corrupt, match="at index 7, term 3"):
        open_snapshots(disk)


@pytest.mark.parametrize(("index", "term"), [(7, 4), (8, 2)])
def test_snapshots_that_contradict_each_other_are_found_out(index: int, term: int) -> None:
    disk = disk_with(FILE)
    data = header_block((3, index), (4, term)) + encode_footer(1, EMPTY)
    disk.open(f"{DIRECTORY}/snapshot-{index:020d}-{term:020d}", "create").write_at(0, [data])
    with pytest.raises(Corrupt, match="do not follow"):
        open_snapshots(disk)


def test_a_file_changed_while_it_is_served_is_found_out() -> None:
    disk = disk_with(FILE)
    snapshots = open_snapshots(disk)
    with snapshots.read(META) as reader:
        assert reader.read(0, 1) == CONTENT[:1]
        disk.flip_bit(path_of(META), CHUNKS_AT + CHUNK + 8, 0)
        with pytest.raises(Corrupt, match="chunk 1"):
            read_all(reader)
        disk.overwrite(path_of(META), CHUNKS_AT + CHUNK, FILE[CHUNKS_AT:][:CHUNK])
        with pytest.raises(Corrupt, match="chunk 1"):  # whole, but out of place
            read_all(reader)
    disk.flip_bit(path_of(META), 20, 0)
    with pytest.raises(Corrupt):
        snapshots.read(META)


def test_a_file_replaced_by_another_intact_one_is_found_out() -> None:
    disk = disk_with(FILE)
    snapshots = open_snapshots(disk)
    disk.overwrite(path_of(META), 0, written(CONTENT[::-1])[1])
    with pytest.raises(Corrupt, match="changed"):
        snapshots.read(META)


def test_a_file_cut_while_it_is_served_is_found_out() -> None:
    for length in range(len(FILE) - FOOTER_BYTES):
        disk = disk_with(FILE)
        with open_snapshots(disk).read(META) as reader:
            disk.cut(path_of(META), length)
            with pytest.raises(Corrupt):
                read_all(reader)


def header_block(*changed: tuple[int, Value], magic: bytes = MAGIC) -> bytes:
    """Return a block with a right checksum and some other fields."""
    values: list[Value] = [*identity_values(IDENTITY), 7, 3, 0, CHUNK_BYTES, 1, b""]
    for position, value in changed:
        values[position] = value
    return encode_block(magic, values)


@pytest.mark.parametrize(
    "block",
    [
        header_block((3, 0)),
        header_block((3, 1 << 63)),
        header_block((4, -1)),
        header_block((6, 0)),
        header_block((6, -16)),
        header_block((6, MIB + 1)),
        header_block((6, (1 << 64) - 1)),
        header_block((7, 1 << 32)),
        header_block((8, bytes((1 << 16) + 1))),
        header_block((8, bytes(1 << 19))),
        header_block((8, "text")),
        header_block((0, "no cluster")),
        header_block((1, "")),
        header_block((2, 0)),
        header_block(magic=b"RBSNAP02"),
    ],
)
def test_a_header_with_impossible_fields_is_found_out(block: bytes) -> None:
    open_snapshots(disk_with(header_block() + encode_footer(1, EMPTY)))
    found_out(block + encode_footer(1, EMPTY))


@pytest.mark.parametrize(
    "footer",
    [
        Footer(0, 0, bytes(32)),
        Footer(1, 0, EMPTY.checksum),
        Footer(0, 1, bytes(32)),
        Footer(1, 1, bytes(32)),
        Footer((1 << 64) - 1, (1 << 64) - 1, bytes(32)),
        Footer(1 << 59, 1 << 63, bytes(32)),
    ],
)
def test_a_footer_with_impossible_totals_is_found_out(footer: Footer) -> None:
    found_out(header_block() + encode_footer(1, footer))


@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, len(FILE)), st.integers(0, 12), st.binary(max_size=12), st.booleans()
        ),
        max_size=4,
    )
)
def test_whatever_is_changed_the_content_is_right_or_nothing(
    changes: list[tuple[int, int, bytes, bool]],
) -> None:
    data = FILE
    for offset, length, insert, mend in changes:
        data = data[:offset] + insert + data[offset + length :]
        if mend and len(data) > 16:  # make the header's checksum right again
            body = int.from_bytes(data[8:12], "little")
            checksum = struct.pack("<I", zlib.crc32(data[16 : 16 + body]))
            data = data[:12] + checksum + data[16:]
    for newest in (True, False):
        try:
            snapshots = open_snapshots(disk_with(data, newest=newest))
            assert content_of(snapshots, snapshots.all[0]) == CONTENT
        except (Corrupt, CannotStart):
            pass


def test_a_chunk_too_many_for_the_content_is_found_out() -> None:
    """The file is as long as the footer says, its one chunk is right, and there is no second."""
    chunk = encode_chunk_head(1, 0, b"x") + b"x" + bytes(8)
    footer = Footer(2, 1, hashlib.sha256(b"x").digest())
    damage = found_out(header_block() + chunk + encode_footer(1, footer))
    assert "2 chunks cannot hold 1 bytes" in damage.reason


def peak_bytes(run: Callable[[], object]) -> int:
    """Return how much memory was in use at most, beyond what was before."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


MEMORY_BYTES_MAX = 2 * MIB + (1 << 18)


def test_memory_does_not_grow_with_the_snapshot(tmp_path: Path) -> None:
    files = RealFiles()
    world = DiskWorld(files)
    piece = Random(5).randbytes(MIB)

    def write() -> None:
        writer = Snapshots.open(world, str(tmp_path), IDENTITY, LIMITS).begin(1, 1, b"")
        for _ in range(8):
            writer.write(piece)
        writer.finish()

    def read() -> None:
        snapshots = Snapshots.open(world, str(tmp_path), IDENTITY, LIMITS)
        assert snapshots.newest
        with snapshots.read(snapshots.newest) as reader:
            offset = 0
            while part := reader.read(offset, 1000):
                offset += len(part)

    assert peak_bytes(write) < MEMORY_BYTES_MAX
    assert peak_bytes(read) < 3 * MIB // 2  # one chunk


def hostile_files() -> list[bytes]:
    """Return files that ask for much."""
    head = header_block((6, MIB))
    return [
        MAGIC + struct.pack("<II", (1 << 32) - 1, 0) + bytes(HEADER_BYTES_MAX),
        head + struct.pack("<II", (1 << 32) - 1, 0) + bytes(FOOTER_BYTES),
        head + encode_chunk_head(1, 0, b"x") + b"x" + encode_footer(1, Footer(1, 1, bytes(32))),
    ]


@pytest.mark.parametrize("data", hostile_files())
@pytest.mark.parametrize("length", [0, 1 << 32])
def test_no_file_decides_how_much_memory_is_used(tmp_path: Path, data: bytes, length: int) -> None:
    files = RealFiles()
    path = f"{tmp_path}/snapshot-{7:020d}-{3:020d}"
    file = files.open(path, "create")
    file.write_at(0, [data])
    if length:  # sparse
        file.truncate(length)
        chunks, rest = divmod(length - len(data) - FOOTER_BYTES, 8 + MIB)
        footer = Footer(chunks + 1, chunks * MIB + rest - 8, bytes(32))
        file.write_at(length - FOOTER_BYTES, [encode_footer(1, footer)])
    file.close()

    def run() -> None:
        with pytest.raises(Corrupt):
            Snapshots.open(DiskWorld(files), str(tmp_path), IDENTITY, LIMITS)

    assert peak_bytes(run) < MEMORY_BYTES_MAX
