"""A node's log file says who leads, once for each change."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from coordinator.leader_news import LeaderNews
from coordinator.raft.standing import Role
from raftbatch.errors import DiskFailed, Fatal
from raftbatch.ids import ClusterId, Identity, NodeId

N1, N2 = NodeId("n1"), NodeId("n2")
OWN = Identity(ClusterId("0" * 32), N1, 1)


@dataclass
class FakeLog:
    """What the news are made of."""

    identity: Identity = OWN
    role: Role = Role.FOLLOWER
    term: int = 0
    leader: NodeId | None = None
    failure: Fatal | None = None


def test_each_change_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    log = FakeLog()
    news = LeaderNews(log)

    def said(role: Role, term: int, leader: NodeId | None) -> list[tuple[str, dict[str, object]]]:
        log.role, log.term, log.leader = role, term, leader
        caplog.clear()
        with caplog.at_level(logging.INFO):
            news.look()
            news.look()  # something else has changed
        return [
            (each.message, {k: v for k, v in vars(each)["fields"].items() if k != "node"})
            for each in caplog.records
        ]

    assert said(Role.FOLLOWER, 0, None) == []
    assert said(Role.CANDIDATE, 1, None) == []
    assert said(Role.LEADER, 1, N1) == [("leadership.gained", {"term": 1})]
    assert said(Role.FOLLOWER, 1, None) == [("leadership.lost", {"term": 1, "leader": ""})]
    assert said(Role.FOLLOWER, 2, N2) == [("leader.changed", {"term": 2, "leader": "n2"})]
    assert said(Role.FOLLOWER, 2, None) == []
    assert said(Role.FOLLOWER, 2, N2) == []
    assert said(Role.FOLLOWER, 3, N2) == [("leader.changed", {"term": 3, "leader": "n2"})]
    assert said(Role.LEADER, 4, N1) == [("leadership.gained", {"term": 4})]
    # Both between two looks.
    assert said(Role.LEADER, 6, N1) == [
        ("leadership.lost", {"term": 4, "leader": ""}),
        ("leadership.gained", {"term": 6}),
    ]
    assert said(Role.FOLLOWER, 7, N2) == [
        ("leadership.lost", {"term": 6, "leader": "n2"}),
        ("leader.changed", {"term": 7, "leader": "n2"}),
    ]


def test_node_whose_log_has_failed_leads_no_more(caplog: pytest.LogCaptureFixture) -> None:
    log = FakeLog(role=Role.LEADER, term=5, leader=N1)
    news = LeaderNews(log)
    with caplog.at_level(logging.INFO):
        news.look()
        log.failure = DiskFailed("it is gone")
        news.look()
    assert [each.message for each in caplog.records] == ["leadership.gained", "leadership.lost"]
