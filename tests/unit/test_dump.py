"""Listing a data directory: it shows what is there, and changes nothing."""

from __future__ import annotations

import errno

import pytest

from chaos.worlds.disk import SimDisk
from coordinator.raft.dump_items import (
    Damage,
    Journal,
    Segment,
    Selection,
    Snapshot,
    Verdict,
)
from coordinator.raft.segments.mark import encode_mark
from raftbatch.errors import InvalidRequest
from tests.unit.dump_example import (
    CONFIG,
    DATA,
    FIRST,
    JOURNAL,
    NEWEST,
    OLDER,
    SECOND,
    SNAPSHOTS,
    dumped,
    lsns,
    make_disk,
    open_directory,
    records_of,
    remove,
    verdict_of,
)


@pytest.fixture(scope="module")
def disk() -> SimDisk:
    return make_disk()


def test_dump_tells_all_that_is_there(disk: SimDisk) -> None:
    items = dumped(disk)
    journal, segments = items[0], [item for item in items if isinstance(item, Segment)]
    assert isinstance(journal, Journal)
    assert (journal.node_id, journal.incarnation, journal.mark_lsn) == ("n1", 1, 13)
    assert (journal.term, journal.vote, journal.last_lsn, journal.last_term) == (2, None, 13, 3)
    assert (journal.first_index, journal.last_index) == (7, 9)
    assert [(s.seq, s.state, s.first_lsn, s.last_lsn) for s in segments] == [
        (1, "full", 1, 11),
        (2, "newest", 12, 13),
    ]
    assert [(s.first_index, s.last_index) for s in segments] == [(7, 7), (8, 9)]
    snapshots = [item for item in items if isinstance(item, Snapshot)]
    assert [(s.index, s.term, s.state, s.chunks, s.config) for s in snapshots] == [
        (3, 1, "intact", 3, CONFIG),
        (6, 2, "intact", 3, CONFIG),
    ]
    said = [(r.kind, r.index, r.term, r.vote, r.in_order) for r in records_of(items)]
    assert said[0] == ("state", None, 1, "n1", True)
    assert said[6:10] == [
        ("keep", 4, 1, None, True),
        ("state", None, 2, None, True),
        ("entry", 5, 2, None, True),
        ("reset", 6, 2, None, True),
    ]
    assert records_of(items)[10].data == b"\x1b[31mred"
    assert verdict_of(items) == Verdict("opens", None, None, None, 13, 0, changed=False)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(lsn_min=3, lsn_max=5), [3, 4, 5]),
        (Selection(index_min=5, index_max=7), [6, 9, 10, 11]),
        (Selection(limit=2), [1, 2]),
        (Selection(limit=0), []),
        (Selection(tail=2), [12, 13]),
        (Selection(tail=5, limit=2), [9, 10]),
        (Selection(tail=0), []),
        (Selection(tail=99, lsn_min=12), [12, 13]),
        (Selection(records=False), []),
    ],
)
def test_dump_lists_what_is_selected(
    disk: SimDisk, selection: Selection, expected: list[int]
) -> None:
    assert lsns(disk, selection) == expected


def test_dump_changes_nothing() -> None:
    disk = make_disk(close=False)  # a node lives there, and a crash left this behind before it:
    disk.open(f"{JOURNAL}/segment-00000000000000000003.tmp", "create").close()
    disk.open(f"{OLDER}.tmp", "create").close()
    disk.overwrite(SECOND, 2000, b"torn")
    seen: set[str] = set()
    disk.fault = lambda operation, path: seen.add(operation)
    disk.trace.clear()
    items = dumped(disk)
    assert seen <= {"open", "read", "exists", "list", "size"}
    assert {line.split()[3] for line in disk.trace if line.split()[1] == "open"} == {"read"}
    assert isinstance(items[0], Journal)
    assert len(items[0].temporaries) == 2
    assert verdict_of(items).outcome == "opens_after_cutting"


def test_dump_takes_the_journal_alone(disk: SimDisk) -> None:
    items = dumped(disk, directory=JOURNAL)
    assert not [item for item in items if isinstance(item, Snapshot)]
    assert records_of(items) == records_of(dumped(disk))


@pytest.mark.parametrize("directory", ["/nowhere", SNAPSHOTS, FIRST, "/"])
def test_dump_says_what_it_expected(disk: SimDisk, directory: str) -> None:
    with pytest.raises(InvalidRequest, match=r"expected the data directory of a node"):
        dumped(disk, directory=directory)


def test_dump_finds_what_stands_behind_damage() -> None:
    disk = make_disk()
    fourth = records_of(dumped(disk))[3]
    disk.flip_bit(FIRST, fourth.offset + 50, 1)  # its data
    items = dumped(disk)
    assert [(r.lsn, r.in_order) for r in records_of(items)] == [
        (lsn, lsn < 4) for lsn in range(1, 14) if lsn != 4
    ]
    place = next(item for item in items if isinstance(item, Damage))
    assert (place.path, place.offset, place.effect) == (FIRST, fourth.offset, "refused")
    verdict = verdict_of(items)
    assert (verdict.outcome, verdict.records, verdict.found) == ("refused", 3, 9)
    assert lsns(disk, Selection(tail=2)) == [12, 13]
    assert lsns(disk, Selection(limit=4)) == [1, 2, 3, 5]
    states = [item.state for item in items if isinstance(item, Segment)]
    assert states == ["damaged", "unread"]


def test_dump_finds_records_where_a_header_is_damaged() -> None:
    disk = make_disk()
    disk.flip_bit(SECOND, 20, 0)
    items = dumped(disk)
    assert [r.lsn for r in records_of(items)] == list(range(1, 12))
    assert not any(r.in_order for r in records_of(items))
    assert isinstance(items[0], Journal)
    assert items[0].node_id == "n1"


def test_dump_lists_what_a_cut_segment_still_holds() -> None:
    disk = make_disk()
    place = records_of(dumped(disk))[12].offset + 50  # in the last record's data
    disk.cut(SECOND, place)
    items = dumped(disk)
    assert [(r.lsn, r.in_order) for r in records_of(items)] == [(n, False) for n in range(1, 13)]
    assert verdict_of(items).outcome == "refused"
    reasons = {item.offset: item.reason for item in items if isinstance(item, Damage)}
    assert reasons[place - 50] == "the file ends within a record's data"
    assert reasons[place].startswith(f"it is {place} bytes long, not 4096")


def test_dump_says_once_why_a_place_is_damaged() -> None:
    disk = make_disk()
    last = records_of(dumped(disk))[12]
    disk.flip_bit(SECOND, last.offset + 50, 1)

    def said() -> list[tuple[int, str, str]]:
        flaws = [item for item in dumped(disk) if isinstance(item, Damage)]
        return [(flaw.offset, flaw.reason.partition(".")[0], flaw.effect) for flaw in flaws]

    why = "the checksum of a record's data does not match"
    lost = "records end with LSN 12, but up to 13 were acknowledged"
    assert said() == [(last.offset, lost, "refused"), (last.offset, why, "unread")]
    for slot in (0, 512):
        disk.overwrite(f"{JOURNAL}/mark", slot, encode_mark(12))
    assert said() == [(last.offset, why, "cut")]


def test_dump_of_what_cannot_be_read_calls_nothing_damaged() -> None:
    for path in (FIRST, SECOND, f"{JOURNAL}/mark", OLDER, NEWEST):
        for failing in ("open", "read"):
            disk = make_disk()

            def deny(operation: str, at: str, path: str = path, failing: str = failing) -> None:
                if (operation, at) == (failing, path):
                    raise PermissionError(errno.EACCES, "Permission denied")

            disk.fault = deny
            items = dumped(disk)
            verdict = verdict_of(items)
            assert (verdict.outcome, verdict.path) == ("unreadable", path)
            assert verdict.reason == "it cannot be read: Permission denied"
            states = {i.state for i in items if isinstance(i, Segment | Snapshot)}
            assert "damaged" not in states
            assert ("unreadable" in states) == (not path.endswith("mark"))
            effects = {item.effect for item in items if isinstance(item, Damage)}
            assert effects <= {"unreadable", "unread"}


def test_dump_says_what_is_missing_where_snapshots_lie_beside_no_journal() -> None:
    disk = make_disk()
    remove(disk, FIRST, SECOND, f"{JOURNAL}/mark")
    with pytest.raises(
        InvalidRequest, match=r"neither a segment nor a mark.* put the journal back"
    ):
        dumped(disk)
    remove(disk, OLDER, NEWEST)
    with pytest.raises(InvalidRequest, match=r"it has neither a segment nor a mark$"):
        dumped(disk)


def test_dump_of_a_living_node_sees_no_damage() -> None:
    disk = make_disk()
    world, opened = open_directory(disk)
    journal, turn = opened.journal, 0

    def grow(operation: str, path: str) -> None:
        nonlocal turn
        if operation not in ("read", "list", "open") or turn % 3:
            turn += 1
            return
        turn += 1
        disk.fault = None
        journal.append(3, b"more" * (turn % 90))
        journal.flush()
        world.workers.run_all()
        disk.fault = grow

    disk.fault = grow
    items = dumped(disk)
    disk.fault = None
    verdict = verdict_of(items)
    assert verdict.outcome == "opens"
    assert verdict.changed
    assert [r.lsn for r in records_of(items)] == list(range(1, verdict.records + 1))
    assert turn > 20


def test_dump_looks_again_where_a_segment_is_dropped_meanwhile() -> None:
    disk = make_disk()
    world, opened = open_directory(disk)
    seen = 0

    def drop(operation: str, path: str) -> None:
        nonlocal seen
        seen += operation == "open" and path == FIRST
        if seen == 2:  # its header has been read
            disk.fault = None
            opened.journal.compact(8)
            opened.journal.flush()
            world.workers.run_all()

    disk.fault = drop
    items = dumped(disk, directory=JOURNAL)
    assert not disk.exists(FIRST)
    assert [item.seq for item in items if isinstance(item, Segment)] == [2]
    assert verdict_of(items).outcome == "opens"


def test_dump_tells_the_pid_in_the_lock_file() -> None:
    disk = make_disk(close=False)

    def pid() -> int | None:
        journal = dumped(disk)[0]
        assert isinstance(journal, Journal)
        return journal.lock_pid

    assert pid() == disk.pid
    disk.overwrite(f"{DATA}/lock", 0, b"?")
    assert pid() is None
    disk.remove(f"{DATA}/lock")
    assert pid() is None


def test_selection_with_an_index_leaves_out_what_has_none(disk: SimDisk) -> None:
    kinds = {record.kind for record in records_of(dumped(disk, Selection(index_min=0)))}
    assert kinds == {"entry", "keep", "reset"}
