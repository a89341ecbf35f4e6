"""When an executor leaves the node that it tails, and when it hears who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio
import pytest

from executor import watching
from executor.watching import Watch

Answer = tuple[bool, str] | grpc.StatusCode


def watched(
    monkeypatch: pytest.MonkeyPatch, answers: list[Answer], hears: Callable[[Watch], None] | None
) -> tuple[str, list[str], int]:
    """Watch a node that answers so, then says that it knows of no leader.

    Returns:
        Why it was left, whom it named, and how many of its answers were had.
    """
    monkeypatch.setattr(watching, "_LOOK_S", 0.0)
    monkeypatch.setattr(watching, "_SOON_S", 0.0)
    left = list(answers)

    async def ask(limit_s: float) -> tuple[bool, str]:
        if hears is not None:
            hears(watch)
        answer = left.pop(0) if left else (False, "")
        if isinstance(answer, grpc.StatusCode):
            none = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(answer, none, none)
        return answer

    told: list[str] = []
    watch = Watch(ask, told.append)
    ended: list[bool] = []
    asyncio.run(watch.run(lambda: ended.append(True)))
    assert ended == [True]
    return watch.why, told, len(answers) - len(left)


SILENT = grpc.StatusCode.DEADLINE_EXCEEDED


def test_node_that_does_not_answer_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    why, told, had = watched(monkeypatch, [(True, "a:1"), SILENT, (True, "b:1")], None)
    assert (why, told, had) == ("it does not answer: DEADLINE_EXCEEDED", ["a:1"], 2)


def test_node_whose_feed_speaks_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Answer] = [SILENT, SILENT, (True, "a:1")]
    why, told, had = watched(monkeypatch, answers, Watch.heard)
    assert (why, told, had) == ("it knows of no leader", ["a:1"], 3)


def test_node_that_refuses_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Answer] = [grpc.StatusCode.UNIMPLEMENTED, (True, "a:1")]
    assert watched(monkeypatch, answers, None) == ("it knows of no leader", ["a:1"], 2)


def test_node_is_left_where_it_knows_of_no_leader_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = (False, "")
    answers: list[Answer] = [nobody, nobody, (True, "a:1"), (True, "a:1"), nobody, (True, "b:1")]
    assert watched(monkeypatch, answers, None) == ("it knows of no leader", ["a:1", "b:1"], 6)
