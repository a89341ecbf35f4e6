"""A node's log file says that its disk is full, once for each change."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.disk_news import LOOK_S, DiskNews
from coordinator.raft.segments.limits import JournalLimits, Space
from coordinator.raft.segments.writer import Disk
from raftbatch.ids import ClusterId, Identity, NodeId

LIMITS = JournalLimits()
OWN = Identity(ClusterId("0" * 32), NodeId("n1"), 1)


@dataclass
class FakeLog:
    """What the news are made of."""

    identity: Identity = OWN
    space: Space = Space.ROOMY
    disk: Disk = field(default_factory=Disk)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_each_change_is_said_once(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    log = FakeLog(space=Space.RESERVE)
    log.disk.space_left = 7
    news = DiskNews(log, "/data/n1", LIMITS)

    def said(space: Space | None = None) -> list[tuple[str, str, str]]:
        if space is not None:
            log.space = space
            loop.run_for(10 * LOOK_S)
        found = [
            (each.levelname, each.message, vars(each)["fields"]["space"]) for each in caplog.records
        ]
        caplog.clear()
        return found

    with caplog.at_level(logging.INFO):
        loop.spawn("n1").call(news.begin)
        first = vars(caplog.records[0])["fields"]
        assert said() == [("WARNING", "disk.filled", "reserve")], "at the start"
        assert said(Space.RESERVE) == []
        assert said(Space.LOW) == [("WARNING", "disk.freed", "low")]
        assert said(Space.ROOMY) == [("INFO", "disk.freed", "roomy")]
        assert said(Space.ROOMY) == []
        assert said(Space.LOW) == [("WARNING", "disk.filled", "low")]
        news.end()
        assert said(Space.ROOMY) == []
    assert first == {
        "node": "n1",
        "directory": "/data/n1",
        "free_bytes": 7,
        "disk_low_bytes": LIMITS.disk_low_bytes,
        "disk_reserve_bytes": LIMITS.disk_reserve_bytes,
        "space": "reserve",
        "refused": "all entries: this node leads no more, and stands for nobody (no_space)",
    }
