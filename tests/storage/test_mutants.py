"""The checks of this folder find a product that breaks its promise.

Each mutant leaves out one precaution. A check that lets it pass checks nothing.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator.raft.failures import TryLater
from coordinator.raft.segments import layout, reader, replay, scan, writer
from coordinator.raft.segments.writer import SegmentWriter
from raftbatch.errors import DiskFailed
from tests.storage import damage, faults
from tests.storage.story import Story, scratch, write_story


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Return a journal that the product as it is has written."""
    with scratch() as directory:
        yield write_story(directory)


def _trusting(data: memoryview, offset: int, salt: int) -> layout.Record | str:
    """Decode a record, whatever its checksums say."""
    if offset + layout.HEAD_BYTES > len(data):
        return "the file ends"
    magic, kind, length, lsn, synced, term, index, _, _ = layout._WHOLE_HEAD.unpack_from(
        data, offset
    )
    start = offset + layout.HEAD_BYTES
    if magic != layout.RECORD_MAGIC or start + length > len(data):
        return "no record begins here"
    return layout.Record(kind, lsn, synced, term, index, offset, data[start : start + length])


def test_flips_show_checksums_that_nobody_checks(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "decode_record", _trusting)
    monkeypatch.setattr(reader, "decode_record", _trusting)
    assert next(damage.flips(story), None)


def test_damage_shows_a_mark_that_nobody_reads(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "read_mark", lambda files, directory: 0)
    for check in (damage.zeroed_tails, damage.flips, damage.deletions):
        assert next(check(story), None), check.__name__


def test_flips_show_a_tail_that_is_cut_where_the_damage_is(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan.Scan, "vouched", lambda self: None)
    assert next(damage.flips(story.forget_mark()), None)


def test_damage_shows_segments_that_need_not_fit_together(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older segment that ends too early is taken as it is."""
    judge = replay.Reading._segment

    def lenient(self: replay.Reading, header: Any, following: Any) -> Iterator[Any]:
        yield from judge(self, header, None)

    monkeypatch.setattr(replay.Reading, "_segment", lenient)
    assert next(damage.zeroed_tails(story), None)


def test_deletions_show_segments_that_nobody_misses(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_end = replay.Reading._check_end

    def lenient(self: replay.Reading) -> None:
        assert self._cursor is not None
        oldest, self._cursor.oldest = self._cursor.oldest, self._headers[0].seq
        check_end(self)
        self._cursor.oldest = oldest

    monkeypatch.setattr(replay.Reading, "_check_end", lenient)
    assert next(damage.deletions(story), None)


@contextmanager
def _deaf(doing: str, **_: object) -> Iterator[None]:
    """Take no notice of errors."""
    try:
        yield
    except OSError:
        pass


@contextmanager
def _patient(doing: str, **_: object) -> Iterator[None]:
    """Take every error for one that passes, of a sync as well."""
    try:
        yield
    except OSError as error:
        raise TryLater(doing) from error


@contextmanager
def _touchy(doing: str, **_: object) -> Iterator[None]:
    """Take every error for the end."""
    try:
        yield
    except OSError as error:
        raise DiskFailed(doing) from error


@pytest.mark.parametrize("mutant", [_deaf, _patient])
def test_failed_syncs_show_a_node_that_goes_on(
    monkeypatch: pytest.MonkeyPatch, mutant: object
) -> None:
    monkeypatch.setattr(writer, "disk_errors", mutant)
    assert next(faults.failed_syncs(errno.EIO), None)
    assert next(faults.failed_syncs(errno.ENOSPC), None)


def test_full_disk_shows_a_node_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "disk_errors", _touchy)
    assert next(faults.full_disk(onwards=False), None)


def test_full_disk_shows_a_node_that_forgets_what_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that did not fit is not written again, though the LSNs go on."""
    write = SegmentWriter.write

    def forgetful(self: SegmentWriter, operations: Any) -> writer.Report:
        report = write(self, operations)
        return report._replace(lsn=operations[-1].lsn)

    monkeypatch.setattr(SegmentWriter, "write", forgetful)
    assert next(faults.full_disk(onwards=False), None)
