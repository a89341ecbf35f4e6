"""Every way to damage a journal's files, each yielding the complaints about what came of it.

Generators, so that a mutant's first complaint ends the pass. A complaint says
the damage in words; the journal is the same in every run.
"""

import os
from collections.abc import Iterator
from random import Random

from coordinator.raft.segments.layout import HEAD_BYTES, SECTOR_BYTES, Record, record_bytes
from coordinator.raft.segments.mark import MARK_NAME
from tests.storage.story import Story

_FIELDS = (0, 3, 4, 8, 16, 24, 32, 40, 44)  # of a record's head; see segments/layout.py


def truncations(story: Story) -> Iterator[str]:
    """Cut each file at each byte, the longest first, so that no copy is needed."""
    for name, data in story.files.items():
        story.restore()
        path = os.fspath(story.journal / name)
        for length in reversed(range(len(data))):
            # Longer than `length`: as it was cut before, or whole again after it was opened.
            os.truncate(path, length)
            if complaint := story.complaint(f"{name} cut to {length} bytes", {name}):
                yield complaint
    story.restore()


def zeroed_tails(story: Story) -> Iterator[str]:
    """Zero each segment from each record, and from places within it, to the end of the file."""
    story.restore()
    for name in story.segments:
        data = story.files[name]
        for record in story.records[name]:
            length = record_bytes(len(record.data))
            within = {0, 3, 40, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + len(record.data) // 2}
            for start in sorted(record.offset + at for at in within | {length - 1} if at < length):
                story.write(name, data[:start] + bytes(len(data) - start))
                what = f"{name} zeroed from {start}"
                # A lost tail of the newest segment and a lost segment are told from the mark,
                # which knows of LSNs and not of files: it names where records end.
                if complaint := story.complaint(what, {name}):
                    yield complaint
        story.write(name, data)


def flips(story: Story) -> Iterator[str]:
    """Flip one bit: in each part of each record, in each byte of headers and mark."""
    story.restore()
    rng = Random("flips")
    for name, data in story.files.items():
        places = [*range(160), *range(160, SECTOR_BYTES, 16)]
        if name == MARK_NAME:
            places += [SECTOR_BYTES + place for place in places]
        for record in story.records.get(name, []):
            places += _places(record)
        for place in places:
            bit = rng.randrange(8)
            story.write(name, _flipped(data, place, bit))
            if complaint := story.complaint(f"{name} with bit {bit} of byte {place}", {name}):
                yield complaint
        story.write(name, data)


def _places(record: Record) -> list[int]:
    """Return offsets in every part of a record: its head's fields, its data, all its padding."""
    start, length = record.offset + HEAD_BYTES, len(record.data)
    data = {start, start + length // 2, start + length - 1} if length else set()
    padding = range(start + length, record.offset + record_bytes(length))
    return [*(record.offset + at for at in _FIELDS), *sorted(data), *padding]


def _flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def deletions(story: Story) -> Iterator[str]:
    """Delete each file, and all of a kind."""
    story.restore()
    newest = story.segments[-1]
    for name in story.files:
        (story.journal / name).unlink()
        # That the newest is gone shows only in that the one before ends too early.
        named = {name, story.segments[-2]} if name == newest else {name}
        if complaint := story.complaint(f"{name} deleted", named):
            yield complaint
        story.restore()
    for name in story.segments:
        (story.journal / name).unlink()
    if complaint := story.complaint("all segments deleted", {_FIRST}, create=True):
        yield complaint
    story.restore()
    for name in story.files:
        (story.journal / name).unlink()
    # The snapshots show that there was a journal: a new one is not begun beside them.
    if complaint := story.complaint("all files deleted", {story.directory.name}, create=True):
        yield complaint
    story.restore()


_FIRST = "segment-00000000000000000001"


def swaps(story: Story) -> Iterator[str]:
    """Give each two segments each other's names, and each segment the next free name."""
    story.restore()
    for number, one in enumerate(story.segments):
        for other in story.segments[number + 1 :]:
            story.write(one, story.files[other])
            story.write(other, story.files[one])
            if complaint := story.complaint(f"{one} and {other} swapped", {one, other}):
                yield complaint
            story.restore()
        free = f"segment-{int(story.segments[-1].removeprefix('segment-')) + 1:020d}"
        story.write(free, story.files[one])
        if complaint := story.complaint(f"{one} copied to {free}", {free}):
            yield complaint
        story.restore()


def strangers(story: Story, other: Story) -> Iterator[str]:
    """Put in each segment's place the segment of that number of another journal."""
    story.restore()
    for number, name in enumerate(story.segments):
        if name not in other.files:
            continue
        story.write(name, other.files[name])
        # Where two do not fit together, the later one is the one that is named.
        named = {name, *story.segments[number + 1 : number + 2]}
        if complaint := story.complaint(f"{name} of another journal", named):
            yield complaint
        story.restore()
