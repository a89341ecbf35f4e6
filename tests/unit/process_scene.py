"""A run of real processes that a test writes by hand: a history, and the log of three nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chaos.checkers.process_values import End, Evidence, LogEntry, NodeLog, Ran
from chaos.checkers.processes import judge
from chaos.history import TENANT, Event, History
from chaos.models import answer
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.tensors import BYTES, Tensor, encode, join_elements
from tests.unit.stories_scene import Log

NODES = ("n1", "n2", "n3")


def envelope(text: str) -> bytes:
    """Return a text as it travels."""
    return encode([Tensor("text", BYTES, (1, 1), join_elements([text.encode()]))])


class Scene(Log):
    """See the module's docstring. What it does to the log is in the log of all nodes."""

    def __init__(self) -> None:
        self.history = History()
        self.logs: dict[str, dict[int, LogEntry]] = {node: {} for node in NODES}
        super().__init__()

    def do(self, *records: r.Record, term: int = 0, raft_term: int = 0) -> int:
        """Write an entry; return its index."""
        index = super().do(*records, term=term, raft_term=raft_term)
        data = encode_entry(r.Entry(term or self.term, self.at_ms, records))
        for log in self.logs.values():
            log[index] = LogEntry(raft_term or self.term, data)
        return index

    def take_in(self, request_id: str = "r1", text: str = "", timeout_ms: int = 0) -> int:
        """Let the log admit a request; return its number."""
        first = self.next_request
        record = self.admission(request_id, timeout_ms=timeout_ms, tenant=TENANT)
        payload = envelope(text or f"{request_id}|ok|")
        self.do(replace(record, payload=(payload,)))
        return first

    def run(self, number: int, text: str = "", *, kind: int = 0) -> int:
        """Let a request be sealed, assigned and reported; return the index of its outcome."""
        batch = self.seal(number)
        return self.report(number, batch, self.assign(batch), text, kind=kind)

    def report(self, number: int, batch: int, fence: int, text: str = "", *, kind: int = 0) -> int:
        """Let a request's run be reported; return the index."""
        said = text or answer(f"r{number}|ok|")
        code = "broke" if kind else ""
        record = r.Complete(
            batch, 1, fence, "x", 2, True, 0, 0, 0, 0, (), b"", (number,), (kind,), (code,),
            ("it broke" if kind else "",), (b"" if kind else envelope(said),),
        )  # fmt: skip
        return self.do(record)

    def asks(self, request_id: str = "r1", op: str = "submit", text: str = "") -> Event:
        """Let a client call."""
        value = {} if op in ("cancel", "result") else {"text": text or f"{request_id}|ok|"}
        return self.history.invoke(op, "c1", request_id, **value)

    def well(self, request_id: str = "r1") -> int:
        """Do a request from its submission to its outcome, as it should be; return its number."""
        asked = self.asks(request_id)
        number = self.take_in(request_id)
        ticket = self.index
        self.history.end(asked, "ok", index=ticket)
        read = self.asks(request_id, "result")
        ended = self.run(number, answer(f"{request_id}|ok|"))
        self.told(read, ticket, ended, answer(f"{request_id}|ok|"))
        return number

    def told(self, read: Event, ticket: int, ended: int, text: str) -> None:
        """Let a client be told an outcome that is ok."""
        self.history.end(read, "ok", outcome="ok", index=ticket, ended_index=ended, text=text)

    def evidence(
        self,
        *,
        runs: Sequence[Ran] | None = None,
        ends: Mapping[str, End] | None = None,
        is_healed: bool = True,
        bounds: Mapping[str, int] | None = None,
        **more: object,
    ) -> Evidence:
        """Return what a checker is given."""
        waiting = sum(story.outcome is None for story in self.stories.requests.values())
        same = {node: End(self.index, self.index, 1, b"d", waiting) for node in NODES}
        found = Evidence(
            self.history.events,
            {node: NodeLog(1, log) for node, log in self.logs.items()},
            same if ends is None else ends,
            runs,
            is_healed,
            bounds=bounds or {},
        )
        for name, value in more.items():
            setattr(found, name, value)
        return found

    def rules(self, **of: object) -> set[str]:
        """Return the rules that are found broken."""
        return {each.rule for each in judge(self.evidence(**of))}  # type: ignore[arg-type]
