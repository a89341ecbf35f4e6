"""What an older version wrote means the same for ever: recordings, replayed to equal digests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from coordinator.core.effects import Applied, Effect, Verdict, Verdicts
from coordinator.core.snapshot import Capture
from coordinator.core.state import TABLES
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.errors import RaftbatchError
from raftbatch.kinds import OutcomeKind
from tests.replay.recording import (
    DIGESTS,
    KINDS,
    PLACE,
    Read,
    copied,
    digests,
    install,
    read,
    record,
)

RECORDINGS = sorted(each.name for each in PLACE.glob("v*"))
BYTES_MAX = 200 << 10

WHAT_TO_DO = """

{name} was written by a released format and meaning of the log; disks hold such logs. Do not change
the recording. Give what you changed a version of its own beside the old one (of the record, of the
snapshot, or a feature level, below which the old meaning stays), so that this passes again; then
record the new one too: python -m tests.replay.recording {next}
"""


def broken(name: str, what: str) -> str:
    """Return what broke, and what is to be done about it."""
    following = f"v{len(RECORDINGS) + 1}"
    return f"{name}: {what}" + WHAT_TO_DO.format(name=name, next=following)


@pytest.fixture(scope="module", params=RECORDINGS)
def name(request: pytest.FixtureRequest) -> str:
    """Return each recording's name."""
    return str(request.param)


@pytest.fixture(scope="module")
def recorded(name: str, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Open a copy of a recording, as a node would."""
    try:
        return read(copied(name, tmp_path_factory.mktemp("replay")))
    except Exception as error:  # noqa: BLE001 - whatever it is, it says what to do about it
        pytest.fail(broken(name, f"the data directory does not open: {error!r}"))


def wanted(name: str) -> dict[int, dict[str, str]]:
    """Return the digests that were recorded, by index."""
    text = (PLACE / name / DIGESTS).read_text(encoding="utf-8")
    return {int(index): each for index, each in json.loads(text)["digests"].items()}


def replay(name: str, recorded: Read, replica: Replica) -> Iterator[int]:
    """Apply all that follows a replica's state; yield the indexes at which it was compared."""
    known = wanted(name)
    for entry in recorded.entries[replica.index :]:
        try:
            replica.apply(entry)
        except Exception as error:  # noqa: BLE001 - whatever it is, it says what to do about it
            pytest.fail(broken(name, f"entry {entry.index} cannot be applied: {error!r}"))
        if entry.index in known:
            found = digests(replica.state)
            for which, digest in known[entry.index].items():
                said = f"the {which} digest at {entry.index} is {found[which]}, and was {digest}"
                assert found[which] == digest, broken(name, said)
            yield entry.index


def test_log_replays_to_the_same_digests(name: str, recorded: Read) -> None:
    assert list(replay(name, recorded, Replica())) == list(wanted(name))


def test_log_behind_the_snapshot_replays_to_the_same_digests(name: str, recorded: Read) -> None:
    replica = Replica()
    index = recorded.snapshot.index
    try:
        install(replica, recorded)
    except RaftbatchError as error:
        pytest.fail(broken(name, f"the snapshot cannot be read: {error!r}"))
    said = f"the snapshot at {index} is another state"
    assert digests(replica.state) == wanted(name)[index], broken(name, said)
    compared = list(replay(name, recorded, replica))
    assert compared == [each for each in wanted(name) if each > index]
    assert len(compared) > 3


def test_bytes_are_written_as_they_were(name: str, recorded: Read) -> None:
    """The newest recording: what is decoded and encoded again is the same bytes."""
    if name != RECORDINGS[-1]:
        pytest.skip("an older format: it is read, and no longer written")
    for entry in recorded.entries:
        if entry.data and not entry.is_config:
            again = encode_entry(decode_entry(entry.data))
            assert again == entry.data, broken(name, f"entry {entry.index} is written otherwise")
    replica = Replica()
    install(replica, recorded)
    content = b"".join(Capture(replica.state).chunks())
    assert content == recorded.content, broken(name, "the snapshot is written otherwise")


class Seen:
    """A listener: which records were done, not only tried, and which effects there were."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.effects: set[str] = set()

    def applied(self, index: int, term: int, entry: r.Entry, applied: Applied) -> None:
        for each, reply in zip(entry.records, applied.replies, strict=True):
            verdicts = reply.verdicts if isinstance(reply, Verdicts) else (reply.verdict,)
            if Verdict.OK in verdicts:
                self.done.add(type(each).__name__)
        self.effects |= {type(each).__name__ for each in applied.effects}

    def installed(self) -> None:
        raise AssertionError("nothing is installed")


def test_recording_holds_all_that_there_is(name: str, recorded: Read) -> None:
    """Every record was done once at least, and the snapshot has rows in every table."""
    replica, seen = Replica(), Seen()
    replica.listeners.append(seen)
    for entry in recorded.entries:
        replica.apply(entry)
        if entry.index == recorded.snapshot.index:
            assert [table for table in TABLES if not getattr(replica.state, table)] == []
            assert {each.kind for each in replica.state.ended.values()} == set(OutcomeKind)
    if name == RECORDINGS[-1]:
        assert seen.done == {each.__name__ for each in KINDS}, broken(name, "a new record")
        assert seen.effects == {each.__name__ for each in get_args(Effect)}
    assert 0.3 < recorded.snapshot.index / len(recorded.entries) < 0.7
    assert {entry.index for entry in recorded.entries if not entry.data}, "the log's own"


def test_recording_is_small(name: str) -> None:
    files = [each for each in (PLACE / name).rglob("*") if each.is_file()]
    assert sum(each.stat().st_size for each in files) <= BYTES_MAX
    assert len(list((PLACE / name / "journal").glob("segment-*"))) > 2


def test_recording_is_never_written_again(name: str) -> None:
    with pytest.raises(FileExistsError):
        record(PLACE / name)


def test_recordings_can_be_made_anew(tmp_path: Path) -> None:
    """By this version: so that the next one can be, when there is something new to record."""
    record(tmp_path / "v0")
    found = read(tmp_path / "v0")
    replica = Replica()
    for entry in found.entries:
        replica.apply(entry)
    text = (tmp_path / "v0" / DIGESTS).read_text(encoding="utf-8")
    assert json.loads(text)["digests"][str(replica.state.index)] == digests(replica.state)
