"""What a process says while it runs: readable lines on a terminal, JSON lines elsewhere.

Whoever logs gives an event, noun.verb-past, as the message, and its fields:

    _LOG.info("peer.connected", extra={"fields": {"peer": node, "incarnation": 2}})

What lives here: how that looks, and turning it on. What must never live here:
what is said. Called by: composition roots; every module logs by itself.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

_OWN = ("raftbatch", "coordinator", "executor")
_NOISY = ("asyncio", "grpc")
"""Libraries that say more than anybody needs below a warning."""


_CALM_S = 60.0
_TEXTS_MAX = 64


class Calm(logging.Filter):
    """Keeps gRPC from filling the log with what a client sends: what is wrong is said in a line.

    It reports each request that it cannot read with all of its own stack, which tells an operator
    nothing. The same text comes once a minute, with how often it was left out in between.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, int]] = {}  # when, and how often left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten a record of gRPC's; return whether it is said. Others pass as they are."""
        if record.name.partition(".")[0] != "grpc":
            return True
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]}"
        at, left_out = self._said.get(text, (record.created - _CALM_S, 0))
        if record.created - at < _CALM_S:
            self._said[text] = (at, left_out + 1)
            return False
        self._said.pop(text, None)
        self._said[text] = (record.created, 0)
        while len(self._said) > _TEXTS_MAX:
            del self._said[next(iter(self._said))]
        again = f" (and {left_out} times more since it was said last)" if left_out else ""
        record.msg, record.args, record.exc_info = text + again, (), None
        return True


def fields(**values: object) -> dict[str, Mapping[str, object]]:
    """Return what to pass as `extra`. Total. Deterministic."""
    return {"fields": values}


class JsonLines(logging.Formatter):
    """One JSON object a line: `at`, `level`, `event`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        event, values = _parts(self, record)
        line = {"at": _time(record), "level": record.levelname.lower(), "event": event}
        return json.dumps(line | {k: v for k, v in values.items() if k not in line}, default=str)


class ReadableLines(logging.Formatter):
    """The time of day, the event, and `name=value` for each field."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        event, values = _parts(self, record)
        error = values.pop("error", None)
        shown = "".join(f"  {name}={_shown(value)}" for name, value in values.items())
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        line = f"{_time(record)[11:23]} {level}{event}{shown}"
        return line if error is None else f"{line}\n{error}"


def begin(stream: TextIO, level: int = logging.INFO) -> None:
    """Log to a stream from now on, in the form that fits it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ReadableLines() if stream.isatty() else JsonLines())
    handler.addFilter(Calm())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _parts(
    formatter: logging.Formatter, record: logging.LogRecord
) -> tuple[str, dict[str, object]]:
    """Return event and fields; of a library's record, or a model's, its text is a field."""
    given = getattr(record, "fields", None)
    values: dict[str, object] = dict(given) if isinstance(given, Mapping) else {}
    event = record.getMessage()
    if given is None and record.name.partition(".")[0] not in _OWN:
        values = {"logger": record.name, "text": event}
        event = "log.written"
    if record.exc_info:
        values["error"] = formatter.formatException(record.exc_info)
    return event, values


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text) if " " in text or not text.isprintable() else text
