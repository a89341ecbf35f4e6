"""The nodes' logs of a run, side by side: what a person reads after a violation.

What lives here: the last lines of a run, and their layout. What must never live
here: a check. Called by: `chaos.suites.raft`, for a seed that is run again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass

from chaos.checkers.raft import Violation
from chaos.worlds.loop import VirtualLoop
from raftbatch.ids import NodeId

_LINES_MAX = 120
_COLUMN = 52
_SHOWN = {
    "term": "t",
    "own_term": "own=t",
    "prev_index": "prev=",
    "prev_term": "/",
    "commit": "c",
    "round": "r",
    "match": "match=",
    "rejected": "rejected=",
    "hint": "hint=",
    "index": "snapshot=",
    "index_term": "/",
    "offset": "@",
    "size": "of ",
    "last_index": "last=",
    "last_term": "/",
    "granted": "granted=",
    "transfer": "transfer=",
}


class Trace:
    """See the module's docstring.

    Attributes:
        digest: of all lines so far: two equal runs have equal ones.
    """

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._loop: VirtualLoop | None = None
        self._nodes: list[NodeId] = []
        self._lines: deque[tuple[float, int, NodeId, str]] = deque(maxlen=_LINES_MAX)

    def begin(self, loop: VirtualLoop, nodes: Sequence[NodeId]) -> None:
        """Take lines from now on."""
        self._loop = loop
        self._nodes = list(nodes)

    def note(self, node: NodeId, text: str) -> None:
        """Take a line of one node's."""
        assert self._loop is not None
        line = (self._loop.time(), self._loop.events, node, text)
        self._lines.append(line)
        self.digest.update(repr(line).encode())

    def observe(self, what: str, one: NodeId, other: NodeId, message: object) -> None:
        """Take a line of what the links do; see `chaos.worlds.ends.Observer`."""
        match what:
            case "connected" | "disconnected":
                self.note(one, f"{what} {other}")
            case "send":
                self.note(one, f"to {other} {brief(message)}")
            case _:
                self.note(other, f"{what} from {one} {brief(message)}")

    def text(self) -> str:
        """Return the last lines, a column a node."""
        rows = []
        for node in {line[2]: None for line in self._lines}:
            if node not in self._nodes:
                self._nodes.append(node)
        for time, event, node, text in self._lines:
            before = " " * (_COLUMN * self._nodes.index(node))
            rows.append(f"{time:10.6f} {event:7} {before}{text[: _COLUMN - 1]}")
        heads = "".join(node.ljust(_COLUMN) for node in self._nodes)
        return "\n".join([f"{'time':>10} {'event':>7} {heads}".rstrip(), *rows])


def explained(run: Callable[[Trace | None], dict[str, int]]) -> dict[str, int]:
    """Run a seed; where it breaks a promise, run it again to tell what happened before.

    Raises:
        Violation: with the nodes' last lines in its message.
    """
    try:
        return run(None)
    except Violation as error:
        trace = Trace()
        again = ""
        try:
            run(trace)
        except Violation as repeated:
            again = str(repeated)
        differs = "" if again == str(error) else f"\nNOT the same when run again: {again}"
        raise Violation(f"{trace.text()}\n{error}{differs}") from None


def brief(message: object) -> str:
    """Return a message in a few words. Total. Deterministic."""
    if not is_dataclass(message):
        return str(message)[:200]
    words = [type(message).__name__]
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, tuple):
            words.append(f"+{len(value)}")
        elif field.name in _SHOWN:
            words.append(f"{_SHOWN[field.name]}{value}")
    return " ".join(words)
