"""What libraries say does not fill the log."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from raftbatch import logs

GRPC = "grpc._cython.cygrpc"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Log to memory; leave logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.begin(stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def say(name: str, text: str, at: float, error: str = "") -> None:
    """Log an error at a moment."""
    record = logging.LogRecord(name, logging.ERROR, "", 1, text, (), None)
    if error:
        try:
            raise ValueError(error)
        except ValueError as raised:
            record.exc_info = (type(raised), raised, raised.__traceback__)
    record.created = at
    logging.getLogger(name).handle(record)


def lines(stream: io.StringIO) -> list[dict[str, str]]:
    """Return what was said."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_grpc_says_what_is_wrong_without_its_stack(stream: io.StringIO) -> None:
    say(GRPC, "Unexpected [DecodeError]", 0.0, "Error parsing message")
    [line] = lines(stream)
    assert line["text"] == "Unexpected [DecodeError]: Error parsing message"
    assert "error" not in line


def test_grpc_says_the_same_once_a_minute_and_how_often_not(stream: io.StringIO) -> None:
    for tenth in range(700):
        say(GRPC, "it broke", tenth / 10, "so")
    say(GRPC, "it broke", 71.0, "otherwise")
    assert [line["text"] for line in lines(stream)] == [
        "it broke: so",
        "it broke: so (and 599 times more since it was said last)",
        "it broke: otherwise",
    ]


def test_texts_that_differ_fill_no_memory(stream: io.StringIO) -> None:
    for number in range(1000):
        say(GRPC, f"broken {number}", 0.0)
    say(GRPC, "broken 999", 1.0)
    say(GRPC, "broken 0", 1.0)
    assert len(lines(stream)) == 1001


def test_others_keep_their_stacks(stream: io.StringIO) -> None:
    for name in ("coordinator.raft.link", "grpcio_tools"):
        for _ in range(2):
            say(name, "message.failed", 0.0, "so")
    assert len(lines(stream)) == 4
    assert all("Traceback" in line["error"] for line in lines(stream))
