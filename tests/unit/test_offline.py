"""The log of a directory, offline: what a node would apply, and a plain word where it cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaos.worlds.stepped import SimWorld
from coordinator.offline import read_directory
from raftbatch.codec import decode_entry
from raftbatch.errors import Compacted, InvalidRequest
from raftbatch.realworld import RealWorld
from tests.replay.recording import read
from tests.tidy.tree import ROOT
from tests.unit.dump_example import DATA, FIRST, make_disk, make_new, open_directory

RECORDED = ROOT / "tests" / "replay" / "v1"


def test_log_is_what_a_node_reads(tmp_path: Path) -> None:
    log = read_directory(RealWorld(), str(RECORDED))
    shutil.copytree(RECORDED, tmp_path / "v1")
    entries = read(tmp_path / "v1").entries
    assert tuple(log.raw()) == entries
    assert list(log) == [
        (each.index, each.term, decode_entry(each.data))
        for each in entries
        if each.data and not each.is_config
    ]
    assert (log.first_index, log.last_index) == (1, len(entries))
    assert log.identity.node_id == "n1"
    assert [each.index for each in log.raw(7, 9)] == [7, 8, 9]
    assert list(log.raw(len(entries) + 1)) == []


def test_nothing_is_written(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "v1")
    before = {each: each.read_bytes() for each in (tmp_path / "v1").rglob("*") if each.is_file()}
    assert len(list(read_directory(RealWorld(), str(tmp_path / "v1")))) > 100
    after = {each: each.read_bytes() for each in (tmp_path / "v1").rglob("*") if each.is_file()}
    assert after == before


def test_entries_that_were_taken_back_are_not_there() -> None:
    """Nor are those that a snapshot replaces."""
    log = read_directory(SimWorld(0, make_disk()), DATA)
    assert (log.first_index, log.last_index) == (7, 9)
    assert [(each.index, each.term) for each in log.raw()] == [(7, 2), (8, 2), (9, 3)]
    with pytest.raises(Compacted, match="entry 6 is gone: the log in /data begins with 7"):
        list(log.raw(6))


def test_living_node_may_be_read() -> None:
    disk = make_disk()
    _, opened = open_directory(disk)
    log = read_directory(SimWorld(0, disk), DATA)
    assert [each.index for each in log.raw()] == [7, 8, 9]
    opened.close()


def test_empty_log_has_no_entries() -> None:
    log = read_directory(SimWorld(0, make_new()), DATA)
    assert (log.first_index, log.last_index, list(log.raw())) == (1, 0, [])


def test_entries_that_hold_no_records_are_a_plain_error() -> None:
    log = read_directory(SimWorld(0, make_disk()), DATA)
    with pytest.raises(InvalidRequest, match="entry 7 holds no records that this program knows"):
        list(log)


def test_damage_is_a_plain_error() -> None:
    disk = make_disk()
    disk.flip_bit(FIRST, 900, 1)
    with pytest.raises(InvalidRequest, match="raftbatch log dump /data"):
        read_directory(SimWorld(0, disk), DATA)


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_directory_of_a_node_is_a_plain_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "journal").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=name):
        read_directory(RealWorld(), str(tmp_path / name))
