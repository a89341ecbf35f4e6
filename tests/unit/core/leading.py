"""A leader over a log in memory, and executors that do what a test says.

What is proposed is appended at once, and applied when the test says so: what lies
between is in flight. A leader can fall with its entries lost, or leave them to its
successor.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.apply import apply
from coordinator.core.decide import Decider
from coordinator.core.effects import Applied, Finished, Placed, Revoked
from coordinator.core.invariants import check
from coordinator.core.outlook import Outlook
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.kinds import Key, LapseReason, Ran, Release
from raftbatch.settings import Model

MODEL = ("m", "1")
KEY: Key = ("m", "1", "a")


class Leading:
    """See the module's docstring.

    Attributes:
        state: of the leader's replica.
        log: entries not applied yet: term and bytes.
        outlook: None until the leader's own Lead is applied.
        at_ms: log time.
        running: what each executor was told to run, and not to stop: fence by batch.
        trace: records of all entries that were proposed, in order.
    """

    def __init__(self) -> None:
        self.state = State()
        self.log: list[tuple[int, bytes]] = []
        self.term = 0
        self.at_ms = 1000
        self.outlook: Outlook | None = None
        self.decider: Decider | None = None
        self.running: dict[str, dict[int, int]] = {}
        self.trace: list[r.Record] = []
        self._index = 0

    def lead(self, *, lose: int = 0) -> None:
        """Let a new leader begin: the last `lose` entries are lost, the others inherited."""
        if lose:
            del self.log[-lose:]
        self.term += 1
        self.outlook = self.decider = None
        self._append([r.Lead("n", 0, 1)])

    def propose(self, *records: r.Record, is_quiet: bool = False) -> list[r.Record]:
        """Propose records and what is decided with them; return all of them."""
        assert self.outlook is not None
        assert self.decider is not None
        flight = self.outlook.begin(self.at_ms)
        for record in records:
            self.outlook.add(record, flight)
        self.decider.decide(flight, is_quiet=is_quiet)
        if flight.records:
            self._append(flight.records)
            self.outlook.commit(flight)
        return flight.records

    def admit(
        self,
        *ids: str,
        key: Key = KEY,
        rows: int = 1,
        priority: int = 1,
        timeout_ms: int = 0,
        tenant: str = "t",
        size: int = 10,
        content_hash: bytes = b"h",
    ) -> r.Admit:
        """Return an Admit of requests that are alike."""
        first = self.outlook.next_request if self.outlook else self.state.next_request
        n = len(ids)
        return r.Admit(
            first,
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

    def apply(self, entries: int = 1 << 30) -> list[Applied]:
        """Apply so many entries of the log, all by default."""
        done = []
        while self.log and entries > 0:
            term, data = self.log.pop(0)
            entries -= 1
            self._index += 1
            entry = decode_entry(data)
            applied = apply(self.state, self._index, term, entry)
            check(self.state)
            done.append(applied)
            self._follow(applied)
            begins = type(entry.records[0]) is r.Lead
            if self.outlook is not None:
                self.outlook.applied(applied)
            elif begins and term == self.term:
                self.outlook = Outlook(self.state)
                for _ in self.outlook.build():
                    pass
                self.decider = Decider(self.outlook)
        return done

    def complete(
        self,
        batch: int,
        kind: int = 0,
        *,
        numbers: Sequence[int] | None = None,
        last: bool = True,
    ) -> r.Complete:
        """Return the report of a batch's current attempt, or of one that is no more."""
        found = self.state.batches[batch]
        named = tuple(found.members if numbers is None else numbers)
        n = len(named)
        return r.Complete(
            batch,
            found.assigned,
            found.fence,
            found.executor,
            found.incarnation,
            last,
            *(1, 2, 3, 4),
            (n,),
            b"f",
            named,
            (kind,) * n,
            ("",) * n,
            ("",) * n,
            (b"result",) * n,
        )

    def _append(self, records: Sequence[r.Record]) -> None:
        self.trace += records
        entry = r.Entry(self.term, self.at_ms, tuple(records))
        self.log.append((self.term, encode_entry(entry)))

    def _follow(self, applied: Applied) -> None:
        for effect in applied.effects:
            match effect:
                case Placed():
                    self.running.setdefault(effect.executor, {})[effect.batch] = effect.fence
                case Revoked() | Finished():
                    self.running.get(effect.executor, {}).pop(effect.batch, None)
                case _:
                    pass


def started(*models: r.PutModel, executors: Sequence[str] = ("gpu-1",), slots: int = 1) -> Leading:
    """Return a leader with models and executors, all applied."""
    leading = Leading()
    leading.lead()
    leading.apply()
    ready = tuple((each.model.name, each.model.version) for each in models)
    leading.propose(*models, *[r.Join(name, 0, slots, ready, b"") for name in executors])
    leading.apply()
    return leading


def put(**settings: object) -> r.PutModel:
    """Return a PutModel of the one version that these tests are about."""
    return r.PutModel(Model(*MODEL, **settings))  # type: ignore[arg-type]


def seals(records: Sequence[r.Record]) -> list[tuple[Release, tuple[int, ...]]]:
    """Return reason and requests of each Seal."""
    return [(each.reason, each.numbers) for each in records if isinstance(each, r.Seal)]


def assigned(records: Sequence[r.Record]) -> list[tuple[int, str]]:
    """Return batch and executor of each Assign."""
    return [(each.batch, each.executor) for each in records if isinstance(each, r.Assign)]


def ids(count: int, prefix: str = "r") -> list[str]:
    """Return so many request ids."""
    return [f"{prefix}{n}" for n in range(count)]


def failure(leading: Leading, batch: int) -> r.Lapse:
    """Return that the current attempt of a batch failed."""
    found = leading.state.batches[batch]
    return r.Lapse(
        batch, found.assigned, found.fence, LapseReason.FAILED, Ran.YES, True, "broke", "it"
    )
