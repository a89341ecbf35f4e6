"""The thread of clients without a loop, and what it complains of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftbatch.client.host import _complain


class PollerCompletionQueue:
    """Bears the name of gRPC's, by which its callbacks are known."""


class Other:
    """Some other callback's owner."""


class Loop(asyncio.SelectorEventLoop):
    """Remembers what was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[dict[str, Any]] = []

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.shown.append(context)


@pytest.mark.parametrize(
    ("owner", "error", "is_shown"),
    [
        (PollerCompletionQueue(), BlockingIOError(), False),
        (PollerCompletionQueue(), RuntimeError("Event loop is closed"), False),
        (PollerCompletionQueue(), RuntimeError("something else"), True),
        (PollerCompletionQueue(), ValueError(), True),
        (Other(), BlockingIOError(), True),
        (Other(), RuntimeError("Event loop is closed"), True),
    ],
)
def test_thread_shows_all_but_what_grpc_says_of_other_loops(
    owner: object, error: Exception, is_shown: bool
) -> None:
    loop = Loop()
    try:
        _complain(loop, {"exception": error, "handle": owner})
        assert bool(loop.shown) == is_shown
    finally:
        loop.close()
