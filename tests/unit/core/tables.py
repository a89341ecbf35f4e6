"""A state that a test speaks to in few words."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.apply import apply
from coordinator.core.effects import Applied, Effect, Reply, Verdict, Verdicts
from coordinator.core.invariants import check
from coordinator.core.state import State
from coordinator.core.values import Outcome, Request
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.kinds import Key, LapseReason, Ran, Release
from raftbatch.settings import Model, Policy

KEY: Key = ("m", "1", "a")
M1 = ("m", "1")


class Core:
    """See the module's docstring. Each call is an entry of its own, and is checked.

    Attributes:
        state: what it is about.
        at_ms: log time of the next entry.
        effects: of the last entry.
    """

    def __init__(
        self,
        model: Model | None = None,
        policy: Policy | None = None,
        executors: Sequence[str] = ("gpu-1",),
        slots: int = 1,
    ) -> None:
        self.state = State()
        self.at_ms = 1000
        self.effects: tuple[Effect, ...] = ()
        self.do(r.Lead("n1", 0, 1), r.PutPolicy(policy or Policy()))
        self.put(model or Model("m", "1"))
        for executor in executors:
            self.join(executor, slots=slots)

    def do(self, *records: r.Record, term: int = 1, raft_term: int | None = None) -> Applied:
        """Apply an entry of these records."""
        entry = decode_entry(encode_entry(r.Entry(term, self.at_ms, records)))
        applied = apply(self.state, self.state.index + 1, raft_term or term, entry)
        check(self.state)
        self.effects = applied.effects
        return applied

    def one(self, record: r.Record) -> str:
        """Apply an entry of one record, and return the name of what was done with it."""
        reply = self.do(record).replies[0]
        if isinstance(reply, Verdicts):
            return " ".join([Verdict(each).name for each in reply.verdicts])
        return reply.verdict.name

    def said(self, record: r.Record) -> str:
        """Apply an entry of one record, and return what the reply says to people."""
        reply = self.do(record).replies[0]
        if isinstance(reply, Reply):
            return reply.message
        return "; ".join([text for _, text in reply.messages])

    def wait(self, ms: int) -> None:
        """Let log time pass, and an Advance come."""
        self.at_ms += ms
        self.do(r.Advance())

    def put(self, model: Model) -> str:
        """Put a model version."""
        return self.one(r.PutModel(model))

    def join(self, executor: str, *, slots: int = 1, replaces: int = 0) -> str:
        """Let an executor join, with every model ready."""
        ready = tuple(sorted(self.state.models))
        return self.one(r.Join(executor, replaces, slots, ready, b""))

    def admission(
        self,
        *ids: str,
        key: Key = KEY,
        tenant: str = "t",
        rows: int = 1,
        priority: int = 1,
        timeout_ms: int = 0,
        size: int = 10,
        content_hash: bytes = b"h",
        first: int | None = None,
    ) -> r.Admit:
        """Return an Admit of requests that are alike."""
        n = len(ids)
        return r.Admit(
            self.state.next_request if first is None else first,
            (key,),
            (tenant,),
            (0,) * n,
            (0,) * n,
            ids,
            (content_hash,) * n,
            (rows,) * n,
            (priority,) * n,
            (timeout_ms,) * n,
            (bytes(size),) * n,
            (b"",) * n,
            ("",) * n,
        )

    def admit(self, *ids: str, **alike: object) -> str:
        """Apply an Admit, and return what was done with each request."""
        return self.one(self.admission(*ids, **alike))  # type: ignore[arg-type]

    def number(self, request_id: str, tenant: str = "t") -> int:
        """Return the number of a request without an outcome."""
        found = self.state.request(tenant, request_id)
        assert isinstance(found, Request), found
        return found.number

    def seal(self, *ids: str, key: Key = KEY, batch: int | None = None) -> str:
        """Seal these requests."""
        numbers = tuple([self.number(each) for each in ids])
        number = self.state.next_batch if batch is None else batch
        return self.one(r.Seal(number, key, Release.SIZE, numbers))

    def assign(self, batch: int = 1, executor: str = "gpu-1") -> str:
        """Assign a batch to an executor."""
        found = self.state.batches.get(batch)
        live = self.state.executors.get(executor)
        attempt = found.assigned + 1 if found else 1
        return self.one(r.Assign(batch, attempt, executor, live.incarnation if live else 1))

    def start(self, *ids: str, executor: str = "gpu-1", **alike: object) -> int:
        """Admit, seal and assign these requests; return the batch."""
        assert set(self.admit(*ids, **alike).split()) == {"OK"}
        batch = self.state.next_batch
        key = alike.get("key", KEY)
        assert self.seal(*ids, key=key) == "OK"  # type: ignore[arg-type]
        assert self.assign(batch, executor) == "OK"
        return batch

    def report(
        self,
        batch: int = 1,
        *,
        fence: int | None = None,
        attempt: int | None = None,
        executor: str | None = None,
        incarnation: int | None = None,
        numbers: Sequence[int] | None = None,
        kind: int = 0,
        last: bool = True,
        result: bytes = b"result",
    ) -> r.Complete:
        """Return a report of a batch's current attempt, but for what is said otherwise."""
        found = self.state.batches[batch]
        named = found.members if numbers is None else tuple(numbers)
        n = len(named)
        return r.Complete(
            batch,
            attempt or found.assigned,
            fence or found.fence or 1,
            executor or found.executor or "gpu-1",
            incarnation or found.incarnation or 1,
            last,
            *(1, 2, 3, 4),
            (n,),
            b"f",
            named,
            (kind,) * n,
            ("bad",) * n if kind else ("",) * n,
            ("",) * n,
            (result,) * n,
        )

    def lapse(
        self,
        batch: int = 1,
        reason: LapseReason = LapseReason.FAILED,
        ran: Ran = Ran.YES,
        *,
        stopped: bool = True,
    ) -> str:
        """Take a batch's current assignment back."""
        found = self.state.batches[batch]
        return self.one(
            r.Lapse(batch, found.assigned, found.fence or 1, reason, ran, stopped, "broke", "it")
        )

    def fails(self, batch: int, executor: str = "gpu-1") -> None:
        """Let a batch fail once on an executor, and its backoff pass."""
        self.at_ms = max(self.at_ms, self.state.batches[batch].not_before_ms)
        assert self.assign(batch, executor) == "OK"
        assert self.lapse(batch) == "OK"

    def outcome(self, request_id: str, tenant: str = "t") -> str:
        """Return what became of a request, and the code that says why."""
        found = self.state.request(tenant, request_id)
        if isinstance(found, Outcome):
            return f"{found.kind.name.lower()} {found.code}".strip()
        return "open" if found is not None else "unknown"

    def told(self) -> list[str]:
        """Return the names of the last entry's effects."""
        return [type(each).__name__ for each in self.effects]
