"""What happened in a run over real processes: rows of JSON lines, with monotonic times.

    {"ns": 12, "kind": "invoke", "op": "submit", "call": 7, "process": "c1", "id": "r7", …}
    {"ns": 99, "kind": "ok", "op": "submit", "call": 7, "process": "c1", "id": "r7", …}

A call of a client is `invoke`, and then one of `ok`, `fail` (definitely not) and `info` (perhaps);
one that has only its `invoke` got no answer. What the harness itself does or sees is `info` of call
0: faults, phases, who leads. Each row is on disk before the next is made, so a harness that dies
leaves all but the last.

What lives here: rows, and writing and reading them. What must never live here: what they mean
(`chaos.checkers`). Called by: workloads, the harness, checkers. Any thread may write.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from raftbatch.closing import Closing

Kind = Literal["invoke", "ok", "fail", "info"]
TENANT = "default"
HARNESS = "harness"
"""The process of rows that no client wrote."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row.

    Attributes:
        ns: monotonic time, in nanoseconds.
        kind: see the module's docstring.
        op: of clients: `submit`, `result`, `cancel`, `infer`; of the harness: `fault`, `heal`,
            `phase`, `look`, `sizes`.
        call: the same of a call's invocation and its end, and of no other; 0: no call.
        process: who: a client's name, or `HARNESS`.
        id: the request's; empty: about none.
        tenant: whose request.
        value: the rest.
    """

    ns: int
    kind: Kind
    op: str
    call: int = 0
    process: str = HARNESS
    id: str = ""
    tenant: str = TENANT
    value: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> str:
        """Return it as a line."""
        found: dict[str, Any] = {"ns": self.ns, "kind": self.kind, "op": self.op}
        if self.call:
            found["call"] = self.call
        if self.process != HARNESS:
            found["process"] = self.process
        if self.id:
            found["id"] = self.id
        if self.tenant != TENANT:
            found["tenant"] = self.tenant
        if self.value:
            found["value"] = dict(self.value)
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


class History(Closing):
    """Rows as they are written; also those that were read.

    Args:
        path: of the file; None: they are kept in memory alone.

    Attributes:
        events: all rows so far, in order.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.events: list[Event] = []
        self._gate = threading.Lock()
        self._calls = 0
        self._file: TextIO | None = None
        if path is not None:
            self._file = path.open("w", encoding="utf-8", buffering=1)

    def close(self) -> None:
        """Close the file: rows that come later are in memory alone. Harmless when repeated."""
        with self._gate:
            if self._file is not None:
                self._file.close()
                self._file = None

    def invoke(self, op: str, process: str, id: str, **value: Any) -> Event:  # noqa: A002
        """Note that a client calls; return the row, which its end is told with."""
        with self._gate:
            self._calls += 1
            return self._put("invoke", op, self._calls, process, id, value)

    def end(self, invoked: Event, kind: Literal["ok", "fail", "info"], **value: Any) -> Event:
        """Note what came of a call."""
        with self._gate:
            return self._put(
                kind, invoked.op, invoked.call, invoked.process, invoked.id, value, invoked.tenant
            )

    def note(self, op: str, **value: Any) -> Event:
        """Note what the harness did or saw."""
        with self._gate:
            return self._put("info", op, 0, HARNESS, "", value)

    def _put(
        self,
        kind: Kind,
        op: str,
        call: int,
        process: str,
        id: str,  # noqa: A002
        value: Mapping[str, Any],
        tenant: str = TENANT,
    ) -> Event:
        event = Event(time.monotonic_ns(), kind, op, call, process, id, tenant, value)
        self.events.append(event)
        if self._file is not None:
            self._file.write(event.row() + "\n")
        return event


@dataclass(slots=True)
class Call:
    """A client's call, from its invocation to its end.

    Attributes:
        began: its invocation.
        ended: its end; None: it got no answer.
    """

    began: Event
    ended: Event | None = None

    @property
    def outcome(self) -> Kind:
        """What became of it: `invoke` where it got no answer."""
        return "invoke" if self.ended is None else self.ended.kind

    @property
    def latency_ns(self) -> int:
        """How long it took; 0: it has not ended."""
        return self.ended.ns - self.began.ns if self.ended is not None else 0


def calls(events: Iterable[Event]) -> list[Call]:
    """Return the clients' calls, in the order of their invocations."""
    found: dict[int, Call] = {}
    for event in events:
        if not event.call:
            continue
        if event.kind == "invoke":
            found[event.call] = Call(event)
        elif event.call in found:
            found[event.call].ended = event
    return list(found.values())


def read(path: Path) -> Iterator[Event]:
    """Yield the rows of a file; a last line that was cut off is passed over.

    Raises:
        ValueError: another line is no row; the message names it.
    """
    lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield parsed(line)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: no row of a history: {error}") from None


def parsed(line: str) -> Event:
    """Return a line as a row.

    Raises:
        ValueError, TypeError, KeyError: it is none.
    """
    row: dict[str, Any] = json.loads(line)
    return Event(
        int(row["ns"]),
        row["kind"],
        str(row["op"]),
        int(row.get("call", 0)),
        str(row.get("process", HARNESS)),
        str(row.get("id", "")),
        str(row.get("tenant", TENANT)),
        row.get("value", {}),
    )
