"""A full disk stops nothing for good and loses nothing; a failed sync stops the node at once."""

import errno

import pytest

from tests.storage import faults
from tests.storage.story import first_complaints
from tests.tidy.tree import expect_none


def test_life_has_every_operation_that_can_fail() -> None:
    seen, model = faults.operations((*faults.NEEDS_ROOM, *faults.SYNCS))
    assert {kind for kind, _ in seen} == {*faults.NEEDS_ROOM, *faults.SYNCS}
    for kind in ("write", "datasync", "create", "rename"):
        assert {"segment", "mark", "snapshot"} <= {on for of, on in seen if of == kind}, kind
    assert {on for kind, on in seen if kind == "sync_directory"} >= {"journal", "snapshots"}
    assert {change.what for change in model.records} == {"append", "vote", "keep", "reset", "drop"}


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("onwards", [False, True], ids=["once", "onwards"])
def test_full_disk_at_any_operation_loses_nothing_and_ends(onwards: bool, killed: bool) -> None:
    expect_none(first_complaints(faults.full_disk(onwards, killed)))


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_failed_sync_stops_the_node_and_loses_nothing_acknowledged(error: int) -> None:
    expect_none(first_complaints(faults.failed_syncs(error)))


def test_failed_write_stops_the_node_and_loses_nothing_acknowledged() -> None:
    expect_none(first_complaints(faults.failed_writes()))
