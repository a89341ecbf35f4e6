"""What clients saw, held against what was committed: I11 and I12.

Every command is unique, so the log itself is the linearization: a write that was
acknowledged is in it once, behind all that were acknowledged before it was asked
for; one that failed definitely is not in it; of the others nothing is known.

What lives here: the history, and its judgement. What must never live here: the
clients. Called by: `chaos.suites.raft_clients`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.checkers.raft_shadow import Complain
from coordinator.raft.segments.layout import Entry


@dataclass(slots=True)
class Write:
    """A command, from its invocation on.

    Attributes:
        data: the command.
        floor: the highest index that was acknowledged before it was asked for.
        index: where it was appended, if it was; 0 if not.
        outcome: `ok`, `fail` (definitely not), or `info` (perhaps).
    """

    data: bytes
    floor: int
    index: int = 0
    outcome: str = "info"


class History:
    """See the module's docstring.

    Attributes:
        writes: all of them.
        acknowledged: the highest index acknowledged so far.
        acks, reads: how many there were.
    """

    def __init__(self, complain: Complain) -> None:
        self.writes: list[Write] = []
        self.acknowledged = 0
        self.acks = 0
        self.reads = 0
        self._complain = complain

    def invoke(self, data: bytes) -> Write:
        """Note that a write is asked for."""
        write = Write(data, self.acknowledged)
        self.writes.append(write)
        return write

    def ok(self, write: Write, committed: Sequence[Entry]) -> None:
        """Note an acknowledgement: it must be committed now."""
        write.outcome = "ok"
        index = write.index
        if index > len(committed) or committed[index - 1].data != write.data:
            self._complain(f"write {index} was acknowledged, but is not committed")
        if index <= write.floor:
            self._complain(f"write {index} was asked for after {write.floor} was acknowledged")
        self.acknowledged = max(self.acknowledged, index)
        self.acks += 1

    def fail(self, write: Write) -> None:
        """Note a definite failure."""
        write.outcome = "fail"

    def read(self, floor: int, index: int, applied: int) -> None:
        """Note a linearizable read: of the state at `applied`, asked for when `floor` was acked."""
        if index < floor or applied < index:
            self._complain(f"a read saw {index} of {applied}, after {floor} was acknowledged")
        self.reads += 1

    def judge(self, committed: Sequence[Entry]) -> Iterator[str]:
        """Yield what is wrong, once nothing is under way any more."""
        where: dict[bytes, int] = {}
        for entry in committed:
            if entry.data and not entry.is_config:
                if entry.data in where:
                    yield f"entries {where[entry.data]} and {entry.index} are the same command"
                where[entry.data] = entry.index
        for write in self.writes:
            index = where.pop(write.data, 0)
            if write.outcome == "ok" and index != write.index:
                yield f"write {write.index} was acknowledged, but is at {index}"
            if write.outcome == "fail" and index:
                yield f"entry {index} was refused for good, but is committed"
        for index in where.values():
            yield f"entry {index} was never asked for"
