"""A core whose entries the checker of the scheduler follows, and entries that no core makes."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.checkers.scheduler import SchedulerChecker
from coordinator.core import effects as e
from coordinator.core.apply import apply
from coordinator.core.effects import Applied, Reply, Verdict, Verdicts
from coordinator.core.state import State
from coordinator.core.values import Outcome, Run
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.ids import NodeId
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import Core

N1, N2 = NodeId("n1"), NodeId("n2")
OK = Reply(Verdict.OK)
TAKEN = Verdicts(bytes(1))


class Replica:
    """What a checker looks at."""

    def __init__(self, state: State) -> None:
        self.state = state


class Scene(Core):
    """See the module's docstring.

    Attributes:
        checker: what is tested.
        log: entries so far: index, term, bytes.
        replica: the first node's.
        watch: its listener.
    """

    def __init__(
        self,
        model: Model | None = None,
        policy: Policy | None = None,
        *,
        slots: int = 1,
        checker: SchedulerChecker | None = None,
    ) -> None:
        self.checker = checker or SchedulerChecker(
            lambda payload: b"result", digest_every=4, check_every=1
        )
        self.log: list[tuple[int, int, bytes]] = []
        self.replica = Replica(State())
        self.watch = self.checker.begin(N1, self.replica)
        super().__init__(model, policy, ("gpu-1", "gpu-2"), slots)

    @property
    def violation(self) -> str:
        """The first broken promise; empty: none."""
        return self.checker.violation or ""

    def do(self, *records: r.Record, term: int = 1, raft_term: int | None = None) -> Applied:
        """Apply an entry of these records, and let the checker follow it."""
        data = encode_entry(r.Entry(term, self.at_ms, records))
        index, raft_term = self.state.index + 1, raft_term or term
        self.log.append((index, raft_term, data))
        self.replica.state = self.state
        entry = decode_entry(data)
        applied = apply(self.state, index, raft_term, entry)
        self.watch.applied(index, raft_term, entry, applied)
        self.effects = applied.effects
        return applied

    def said_to(
        self,
        record: r.Record,
        reply: Reply | Verdicts,
        *effects: e.Effect,
        outcomes: Mapping[str, Outcome] | None = None,
        term: int = 1,
    ) -> str:
        """Let the checker follow an entry that no core has applied; return what is wrong."""
        given = outcomes or {}
        entry = r.Entry(term, self.at_ms, (record,))
        index = self.state.index + 1
        self.checker.model.follow(index, 1, entry, Applied((reply,), effects), given.get)
        return self.violation

    def ends(
        self,
        request_id: str,
        kind: OutcomeKind,
        *,
        code: str = "",
        result: bytes = b"",
        run: Run | None = None,
    ) -> tuple[e.Ended, dict[str, Outcome]]:
        """Return the effect and the outcome of a request that the next entry ends."""
        request = self.state.requests[self.number(request_id)]
        outcome = Outcome(
            *(request.name, request.number, request.ticket, request.content_hash, kind, code, ""),
            *(result, self.at_ms, self.state.index + 1, run, True),
        )
        batch = self.state.batch_of.get(request.number, 0)
        return e.Ended((request,), batch), {request.name: outcome}

    def ran(self, batch: int, kind: OutcomeKind = OutcomeKind.OK) -> None:
        """Let the current attempt of a batch run to its end."""
        found = self.state.batches[batch]
        runs = self.checker.runs
        run = runs.started(
            *(found.executor, found.incarnation, batch, found.assigned, found.fence),
            [number for number in found.members if number in self.state.requests],
        )
        result = b"result" if kind is OutcomeKind.OK else b""
        runs.ended(run, dict.fromkeys(run.numbers, (kind, result)))

    def finish(self, batch: int) -> str:
        """Let a batch run, and be reported."""
        self.ran(batch)
        return self.one(self.report(batch))

    def here(self) -> tuple[NodeId, State]:
        """Return the first node, and its state."""
        return N1, self.state

    def again(self, upto: int = 1 << 30) -> Replica:
        """Let a second replica apply the log, up to an index, under a listener of its own."""
        replica = Replica(State())
        watch = self.checker.begin(N2, replica)
        for index, term, data in self.log:
            if index <= upto:
                entry = decode_entry(data)
                applied = apply(replica.state, index, term, entry)
                watch.applied(index, term, entry, applied)
        return replica
