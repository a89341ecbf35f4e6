"""What a process says while it runs: one line an event, readable or JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from raftbatch import logs


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Put the root logger back as it was."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_logs_are_json_lines_where_nobody_looks() -> None:
    stream = io.StringIO()
    logs.begin(stream)
    logging.getLogger("a").info("peer.connected", extra=logs.fields(peer="n2", incarnation=2))
    line = json.loads(stream.getvalue())
    assert line["event"] == "peer.connected"
    assert (line["level"], line["peer"], line["incarnation"]) == ("info", "n2", 2)
    assert line["at"].endswith("Z")


def test_logs_are_readable_on_a_terminal() -> None:
    stream = Terminal()
    logs.begin(stream)
    logging.getLogger("a").warning("peer.refused", extra=logs.fields(peer="n2", why="two words"))
    assert stream.getvalue()[13:] == 'warning: peer.refused  peer=n2  why="two words"\n'


def test_logs_of_a_library_are_events_too() -> None:
    stream = io.StringIO()
    logs.begin(stream)
    logging.getLogger("asyncio").info("nobody needs this")
    logging.getLogger("asyncio").error("it %s", "broke")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["text"], line["logger"]) == ("log.written", "it broke", "asyncio")


def test_logs_of_our_own_without_fields_are_events() -> None:
    stream = io.StringIO()
    logs.begin(stream)
    logging.getLogger("executor.worker").warning("model.refused")
    line = json.loads(stream.getvalue())
    assert line["event"] == "model.refused"
    assert "text" not in line


def test_logs_hold_an_exception_in_one_line() -> None:
    stream = io.StringIO()
    logs.begin(stream)
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("a").exception("request.failed", extra=logs.fields(node="n1"))
    [text] = stream.getvalue().splitlines()
    assert "ValueError: why" in json.loads(text)["error"]


def test_logs_keep_a_terminal_from_obeying() -> None:
    stream = Terminal()
    logs.begin(stream)
    logging.getLogger("a").info("peer.refused", extra=logs.fields(why="\x1b[2J"))
    assert "\x1b" not in stream.getvalue()


def test_logs_let_no_field_hide_the_event() -> None:
    stream = io.StringIO()
    logs.begin(stream)
    logging.getLogger("a").info("a.happened", extra=logs.fields(event="other", at="never"))
    line = json.loads(stream.getvalue())
    assert line["event"] == "a.happened"
    assert line["at"] != "never"
