"""What is known of a run over real processes once it is over, and what is found in it.

What lives here: those values. What must never live here: a rule. Called by: `chaos.running`, which
fills them in; `chaos.checkers.process_*`, which judge them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.history import Event

Name = tuple[str, str]
"""Tenant and request id."""


class LogEntry(NamedTuple):
    """An entry as it stands in one node's files.

    Attributes:
        term: of it.
        data: of it; of a membership too.
        is_config: whether it is a membership.
    """

    term: int
    data: bytes
    is_config: bool = False


@dataclass(slots=True)
class NodeLog:
    """A node's log, read from its files.

    Attributes:
        first_index: of the oldest entry; above 1 a snapshot stands for the rest.
        entries: by index.
        refusal: why it cannot be read; empty: it was.
    """

    first_index: int = 1
    entries: dict[int, LogEntry] = field(default_factory=dict)
    refusal: str = ""

    @property
    def last_index(self) -> int:
        """Of the newest entry."""
        return self.first_index + len(self.entries) - 1


@dataclass(frozen=True, slots=True)
class End:
    """What a node said of itself when all was over.

    Attributes:
        applied, commit, term: of its log.
        digest: of all that was applied.
        requests, batches: without an outcome, and not done with.
        held: slots that are taken, of each executor.
        counters: by name.
    """

    applied: int
    commit: int = 0
    term: int = 0
    digest: bytes = b""
    requests: int = 0
    batches: int = 0
    held: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


class Ran(NamedTuple):
    """A batch that a model was given.

    Attributes:
        ns: monotonic, when it began.
        ids: of its requests.
    """

    ns: int
    ids: Sequence[str]


@dataclass(slots=True)
class Evidence:
    """All that is known of a run.

    Attributes:
        events: the history.
        logs: of each node.
        ends: of each node that answered at the end.
        runs: of all executors; None: nobody noted them.
        is_healed: whether the run came as far as its liveness phase: what waits since is stuck.
        harms_executors: whether faults made executors report failures of their own: then a request
            may fail though nothing is wrong with it.
        bounds: bytes that a kind of file of one node may take: `data`, `log`.
        said: lines of the processes' logs that tell of a bug, by process.
        died: processes that ended though nobody ended them, and how.
    """

    events: Sequence[Event]
    logs: Mapping[str, NodeLog]
    ends: Mapping[str, End] = field(default_factory=dict)
    runs: Sequence[Ran] | None = None
    is_healed: bool = True
    harms_executors: bool = False
    bounds: Mapping[str, int] = field(default_factory=dict)
    said: Mapping[str, Sequence[str]] = field(default_factory=dict)
    died: Mapping[str, str] = field(default_factory=dict)

    @property
    def committed(self) -> int:
        """Highest index that a node ever said is committed."""
        said = [max(each.commit, each.applied) for each in self.ends.values()]
        for event in self.events:
            if event.op == "look":
                said += [int(each.get("commit", 0)) for each in event.value["nodes"].values()]
        return max(said, default=0)


@dataclass(slots=True)
class Finding:
    """A broken promise.

    Attributes:
        rule: a short name for which.
        what: what was seen, in a sentence.
        name: the request that it is about; None: of none.
        story: all that is known of it: lines.
    """

    rule: str
    what: str
    name: Name | None = None
    story: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return it with its story."""
        return "\n".join([f"{self.rule}: {self.what}", *(f"    {line}" for line in self.story)])
