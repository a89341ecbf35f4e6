"""The note of a first start: its bytes, and what a damaged one is."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from chaos.suites.founding_world import DIRECTORY
from chaos.worlds.disk import SimDisk
from coordinator.note import Note, Notes, Plan, decode, encode
from raftbatch.errors import CannotStart, Corrupt
from raftbatch.ids import ClusterId
from tests.unit.founding_scene import MEMBERS, N1, N2

CLUSTER = ClusterId("0123456789abcdef" * 2)


def test_note_is_read_as_it_was_written() -> None:
    note = Note(N1, MEMBERS, bytes(16), b"a" * 16, (b"b" * 16,), Plan(CLUSTER, ((N2, b"c" * 16),)))
    for each in (note, replace(note, plan=None), Note(N1, MEMBERS, bytes(16))):
        assert decode(encode(each)) == each


def test_note_that_is_damaged_is_none() -> None:
    data = encode(Note(N1, MEMBERS, bytes(16), plan=Plan(CLUSTER, ((N2, b"c" * 16),))))
    for offset in range(len(data)):
        flipped = bytearray(data)
        flipped[offset] ^= 1
        with pytest.raises(ValueError, match="checksum"):
            decode(bytes(flipped))
    with pytest.raises(ValueError, match="checksum"):
        decode(data[:-1])


def test_note_that_is_damaged_says_what_to_do() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory(DIRECTORY)
    Notes(disk, DIRECTORY).write(Note(N1, MEMBERS, bytes(16)))
    disk.flip_bit(f"{DIRECTORY}/founding", 40, 3)
    with pytest.raises(Corrupt, match="empty its data directory, then start it with --bootstrap"):
        Notes(disk, DIRECTORY).read()


def test_note_that_cannot_be_read_is_no_missing_one() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory(f"{DIRECTORY}/founding")
    with pytest.raises(CannotStart, match="cannot be read"):
        Notes(disk, DIRECTORY).read()
