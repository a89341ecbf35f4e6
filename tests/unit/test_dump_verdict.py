"""The verdict of a listing is what opening does, whatever is on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from chaos.worlds.disk import SimDisk
from chaos.worlds.stepped import SimWorld
from coordinator.raft.dump_items import (
    Damage,
    Verdict,
)
from coordinator.raft.segments.mark import encode_mark
from coordinator.raft.segments.recovery import recover
from raftbatch.errors import CannotStart, Corrupt, DiskFailed, InvalidRequest
from tests.unit.dump_example import (
    DATA,
    FIRST,
    JOURNAL,
    NEWEST,
    OLDER,
    SECOND,
    SNAPSHOTS,
    dumped,
    make_disk,
    make_new,
    open_directory,
    remove,
    verdict_of,
)


def opening(disk: SimDisk) -> tuple[str, str | None, int | None, str | None]:
    """Open a copy of the directory; say what became of it, in the words of a verdict."""
    world = SimWorld(7, disk.clone(Random(0)))
    try:
        recovered, writer = recover(world, JOURNAL, 4096)
        writer.close()
        repairs = recovered.repairs
        opened = open_directory(world.files)[1]
        opened.close()
    except Corrupt as error:
        return "refused", error.path, error.offset, error.reason
    except CannotStart as error:
        return "refused", None, None, str(error)
    except DiskFailed as error:
        return "unreadable", None, None, f"it cannot be read: {error.__cause__}"
    return ("opens_after_cutting" if repairs else "opens"), None, None, None


def check_verdict(disk: SimDisk) -> Verdict:
    """Hold the verdict of a listing against what opening does."""
    items = dumped(disk)
    verdict, (outcome, path, offset, reason) = verdict_of(items), opening(disk)
    assert verdict.outcome == outcome
    if path is not None:
        assert (verdict.path, verdict.offset, verdict.reason) == (path, offset, reason)
    elif reason is not None:
        assert verdict.reason == reason
    effects = [item.effect for item in items if isinstance(item, Damage)]
    assert ("refused" in effects) == (outcome == "refused")  # both, where neither part opens
    if outcome != "refused":  # a torn tail may be cut before a snapshot is refused
        assert ("cut" in effects) == (outcome == "opens_after_cutting")
    return verdict


def flips(disk: SimDisk, path: str, places: Sequence[int]) -> Iterator[int]:
    """Flip a bit of one byte after the other; the disk is as it was in the end."""
    for offset in places:
        disk.flip_bit(path, offset, offset % 8)
        yield offset
        disk.flip_bit(path, offset, offset % 8)


def test_dump_says_that_a_journal_was_never_begun() -> None:
    disk = make_disk()
    remove(disk, FIRST, SECOND)
    disk.zero(f"{JOURNAL}/mark", 0, 1024)
    assert check_verdict(disk).outcome == "refused"  # the mark is damaged, for all one knows
    disk.overwrite(f"{JOURNAL}/mark", 0, make_new().read(f"{JOURNAL}/mark"))
    with pytest.raises(InvalidRequest, match="there never was any"):
        dumped(disk)


def used(disk: SimDisk, path: str) -> int:
    content = disk.read(path)
    return min(len(content), len(content.rstrip(b"\0")) + 24)


def _verdicts(path: str, step: int, expected: set[str]) -> None:
    disk = make_disk()
    found = set()
    for _ in flips(disk, path, range(0, used(disk, path), step)):
        found.add(check_verdict(disk).outcome)
    assert found == expected


FILES = [
    (FIRST, {"refused", "opens"}),
    (SECOND, {"refused", "opens", "opens_after_cutting"}),
    (f"{JOURNAL}/mark", {"opens"}),
    (OLDER, {"refused", "opens"}),
    (NEWEST, {"refused"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "expected"), FILES)
def test_dump_agrees_with_opening_whatever_byte_is_flipped(path: str, expected: set[str]) -> None:
    _verdicts(path, 1, expected)


@pytest.mark.parametrize("path", [path for path, _ in FILES])
def test_dump_agrees_with_opening_over_some_flipped_bytes(path: str) -> None:
    disk = make_disk()
    for _ in flips(disk, path, range(0, used(disk, path), 41)):
        check_verdict(disk)


def overwrite(disk: SimDisk, offset: int, *paths: str) -> None:
    for path in paths:
        disk.overwrite(path, offset, b"torn")


DAMAGES: list[Callable[[SimDisk], None]] = [
    lambda disk: disk.remove(FIRST),
    lambda disk: disk.remove(SECOND),
    lambda disk: disk.remove(f"{JOURNAL}/mark"),
    lambda disk: disk.remove(NEWEST),
    lambda disk: remove(disk, FIRST, SECOND),
    lambda disk: remove(disk, OLDER, NEWEST),
    lambda disk: disk.cut(SECOND, 700),
    lambda disk: disk.cut(FIRST, 0),
    lambda disk: disk.zero(SECOND, 512, 4096),
    lambda disk: disk.zero(FIRST, 1000, 4096),
    lambda disk: disk.overwrite(FIRST, 4096, b"longer"),
    lambda disk: disk.rename(SECOND, f"{JOURNAL}/segment-00000000000000000004"),
    lambda disk: disk.rename(NEWEST, f"{SNAPSHOTS}/snapshot-\x1b"),
    lambda disk: disk.overwrite(SECOND, 0, disk.read(FIRST)),
    lambda disk: disk.make_directory(f"{SNAPSHOTS}/lost+found"),
    lambda disk: disk.overwrite(SECOND, 2000, b"torn"),
    lambda disk: overwrite(disk, 2000, SECOND, OLDER),
]


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_dump_agrees_with_opening_over_damaged_files(number: int) -> None:
    disk = make_disk()
    DAMAGES[number](disk)
    check_verdict(disk)


@pytest.mark.parametrize("seed", range(60))
def test_dump_survives_whatever_is_on_the_disk(seed: int) -> None:
    rng = Random(seed)
    disk = make_disk()
    paths = [FIRST, SECOND, f"{JOURNAL}/mark", f"{DATA}/lock", OLDER, NEWEST]
    if rng.random() < 0.5:  # the mark lags, as after a power cut: more is torn, less is damage
        for slot in (0, 512):
            disk.overwrite(f"{JOURNAL}/mark", slot, encode_mark(rng.randrange(14)))
    for _ in range(rng.randint(1, 6)):
        path = rng.choice(paths)
        size = len(disk.read(path))
        start = rng.randint(0, min(size, used(disk, path)))
        match rng.randrange(5):
            case 0:
                disk.cut(path, rng.randint(0, size + 10))
            case 1:
                disk.zero(path, start, start + rng.randint(1, 300))
            case 2:
                disk.overwrite(path, start, rng.randbytes(rng.randint(1, 300)))
            case 3:
                source = disk.read(rng.choice(paths))
                disk.overwrite(path, start // 8 * 8, source[512 : 512 + rng.randint(1, 3000)])
            case _:
                disk.overwrite(path, start, bytes([rng.randrange(256)]))
    check_verdict(disk)
