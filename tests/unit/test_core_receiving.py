"""The follower's side of a snapshot transfer."""

from __future__ import annotations

import pytest

from coordinator.raft.membership import encode
from coordinator.raft.messages import InstallSnapshot, SnapshotReply
from coordinator.raft.receiving import Receiving
from tests.scenarios.fakes import N1, N2, N3, FakeLog, FakeStore, members, standing, taken

CONFIG = encode(members(N1, N2, N3))


class Transfer:
    """A follower, its store, and what it says."""

    def __init__(self) -> None:
        self.standing = standing(FakeLog(1))
        self.standing.leader = N2
        self.store = FakeStore()
        self.installed: list[tuple[int, int]] = []
        self.receiving = Receiving(
            self.standing,
            self.store,
            lambda index, term: self.installed.append((index, term)),
        )

    def piece(
        self, offset: int, data: bytes, *, index: int = 9, checksum: bytes = b"sum", round_: int = 1
    ) -> None:
        """Receive one."""
        message = InstallSnapshot(1, index, 1, CONFIG, 6, checksum, offset, data, round_)
        self.receiving.on_install_snapshot(message)

    def said(self) -> list[tuple[int, int, int]]:
        """Return index, offset and round of each answer."""
        found = []
        for to, message in taken(self.standing):
            assert isinstance(message, SnapshotReply)
            assert to == self.standing.leader
            found.append((message.index, message.offset, message.round))
        return found


@pytest.fixture
def transfer() -> Transfer:
    return Transfer()


def test_pieces_are_written_in_order_and_installed_when_whole(transfer: Transfer) -> None:
    transfer.piece(0, b"abc")
    assert transfer.said() == [], "nothing is said of what is not written"
    transfer.store.answer_all()
    assert transfer.said() == [(9, 3, 1)]
    transfer.piece(3, b"def", round_=2)
    transfer.store.answer()
    assert not transfer.installed, "it is not durable yet"
    transfer.store.answer_all()
    assert transfer.store.steps == ["begin 9@1", "write abc", "write def", "finish sum"]
    assert transfer.installed == [(9, 1)]


def test_doubled_and_early_pieces_are_answered_with_what_is_there(transfer: Transfer) -> None:
    transfer.piece(0, b"abc")
    transfer.store.answer_all()
    transfer.piece(0, b"abc", round_=2)
    transfer.piece(5, b"f", round_=3)
    transfer.piece(3, b"", round_=4)
    assert transfer.said() == [(9, 3, 1), (9, 3, 2), (9, 3, 3), (9, 3, 4)]
    assert transfer.store.content == b"abc"


def test_piece_of_an_unknown_transfer_is_answered_with_its_beginning(transfer: Transfer) -> None:
    transfer.piece(3, b"def")
    assert transfer.said() == [(9, 0, 1)]
    assert transfer.store.steps == []


def test_transfer_goes_on_under_another_leader(transfer: Transfer) -> None:
    transfer.piece(0, b"abc")
    transfer.store.answer_all()
    transfer.said()
    transfer.standing.leader = N3
    transfer.piece(0, b"", round_=5)
    assert transfer.said() == [(9, 3, 5)]
    transfer.piece(3, b"def")
    transfer.store.answer_all()
    assert transfer.installed == [(9, 1)]


def test_busy_follower_takes_nothing(transfer: Transfer) -> None:
    transfer.piece(0, b"abc")
    transfer.piece(0, b"abc", round_=2)
    transfer.piece(0, b"xyz", index=12, round_=3)
    transfer.store.answer_all()
    assert transfer.said() == [(9, 3, 1)]
    assert transfer.store.content == b"abc"


def test_another_snapshot_takes_the_place(transfer: Transfer) -> None:
    transfer.piece(0, b"abc")
    transfer.store.answer_all()
    transfer.piece(0, b"uvw", index=12)
    transfer.store.answer_all()
    assert transfer.store.content == b"uvw"
    assert transfer.said() == [(9, 3, 1), (12, 3, 1)]


def test_wrong_content_is_not_installed_and_begun_anew(transfer: Transfer) -> None:
    transfer.piece(0, b"abcdef", checksum=b"other")
    transfer.store.answer()
    transfer.store.answer()
    transfer.store.answer(worked=False)
    assert not transfer.installed
    transfer.piece(6, b"", checksum=b"other", round_=2)
    assert transfer.said() == [(9, 0, 2)]
    transfer.piece(0, b"abc")
    assert transfer.store.steps[-1] == "begin 9@1"


@pytest.mark.parametrize("steps", [0, 1])
def test_full_disk_asks_for_nothing_at_once(transfer: Transfer, steps: int) -> None:
    transfer.piece(0, b"abc")
    for _ in range(steps):
        transfer.store.answer()
    transfer.store.answer(worked=False)
    assert transfer.said() == [], "it would bring the next piece at once"


def test_empty_snapshot_is_installed_too(transfer: Transfer) -> None:
    message = InstallSnapshot(1, 9, 1, CONFIG, 0, b"sum", 0, b"", 1)
    transfer.receiving.on_install_snapshot(message)
    transfer.store.answer_all()
    assert transfer.installed == [(9, 1)]


def test_nothing_is_said_where_nobody_leads(transfer: Transfer) -> None:
    transfer.piece(0, b"abc")
    transfer.standing.leader = None
    transfer.store.answer_all()
    assert taken(transfer.standing) == []
