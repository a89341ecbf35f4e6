"""What a node loads at its start is passed over by the garbage collector from then on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from coordinator.core.effects import Applied
from coordinator.server import _Freezing
from raftbatch.records import Entry

ENTRY = Entry(1, 1, ())
APPLIED = Applied((), ())


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_entries_of_the_disk_are_frozen_once_all_are_applied() -> None:
    freezing = _Freezing(5)
    freezing.applied(4, 1, ENTRY, APPLIED)
    assert gc.get_freeze_count() == 0
    freezing.applied(6, 1, ENTRY, APPLIED)  # entries without records are not told
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    freezing.applied(7, 1, ENTRY, APPLIED)
    assert gc.get_freeze_count() == 0


def test_installed_snapshot_is_frozen() -> None:
    _Freezing(0).installed()
    assert gc.get_freeze_count() > 0


def test_new_node_freezes_nothing() -> None:
    _Freezing(0).applied(1, 1, ENTRY, APPLIED)
    assert gc.get_freeze_count() == 0
