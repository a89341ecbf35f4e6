"""A log that a test writes in few words, and the stories that the fold makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.kinds import Key, LapseReason, Ran, Release
from raftbatch.settings import Model, Policy
from raftbatch.stories import Stories

KEY: Key = ("m", "1", "a")
MODEL = Model("m", "1", max_batch_size=8, attempts_max=1, backoff_initial_ms=0)


class Log:
    """See the module's docstring. Each call is an entry of its own.

    Args:
        first_index: of the log that is fed; what comes before is not.
        begins: whether it begins as a cluster does.

    Attributes:
        stories: of what was fed.
        index, at_ms: of the last entry; log time is the test's to advance.
    """

    def __init__(
        self,
        first_index: int = 1,
        *,
        begins: bool = True,
        model: Model = MODEL,
        policy: Policy | None = None,
    ) -> None:
        self.stories = Stories(first_index)
        self.index, self.at_ms, self.term = first_index - 1, 1000, 1
        self.next_request = self.next_batch = 1
        if begins:
            self.do(r.Lead("n1", 0, 1), r.PutPolicy(policy or Policy()), r.PutModel(model))
            self.join("x")

    def do(self, *records: r.Record, term: int = 0, raft_term: int = 0) -> int:
        """Feed an entry, through its bytes; return its index."""
        entry = r.Entry(term or self.term, self.at_ms, records)
        self.index += 1
        decoded = decode_entry(encode_entry(entry))
        self.stories.feed(self.index, raft_term or self.term, decoded)
        return self.index

    def join(self, executor: str, replaces: int = 0, slots: int = 4) -> int:
        """Let an executor join; return its incarnation."""
        return self.do(r.Join(executor, replaces, slots, (("m", "1"),), b""))

    def admission(self, *ids: str, timeout_ms: int = 0, tenant: str = "t") -> r.Admit:
        """Return an Admit of requests that are alike."""
        count, first = len(ids), self.next_request
        self.next_request += count
        return r.Admit(
            first,
            (KEY,),
            (tenant,),
            (0,) * count,
            (0,) * count,
            ids,
            (b"h",) * count,
            (1,) * count,
            (1,) * count,
            (timeout_ms,) * count,
            (b"payload",) * count,
            (b"",) * count,
            ("",) * count,
        )

    def admit(self, *ids: str, timeout_ms: int = 0) -> int:
        """Admit requests; return the number of the first."""
        first = self.next_request
        self.do(self.admission(*ids, timeout_ms=timeout_ms))
        return first

    def seal(self, *numbers: int, reason: Release = Release.SIZE) -> int:
        """Seal requests; return the batch."""
        batch = self.next_batch
        self.next_batch += 1
        self.do(r.Seal(batch, KEY, reason, numbers))
        return batch

    def assign(
        self, batch: int, attempt: int = 1, executor: str = "x", incarnation: int = 2
    ) -> int:
        """Assign a batch; return the fence."""
        return self.do(r.Assign(batch, attempt, executor, incarnation))

    def lapse(
        self,
        batch: int,
        fence: int,
        attempt: int = 1,
        reason: LapseReason = LapseReason.FAILED,
        ran: Ran = Ran.YES,
    ) -> int:
        """Take an assignment back."""
        return self.do(r.Lapse(batch, attempt, fence, reason, ran, True, "broke", "it"))

    def complete(
        self,
        batch: int,
        fence: int,
        numbers: Sequence[int],
        *,
        attempt: int = 1,
        executor: str = "x",
        incarnation: int = 2,
        kinds: Sequence[int] = (),
        last: bool = True,
    ) -> int:
        """Report."""
        return self.do(
            report(
                batch,
                fence,
                numbers,
                attempt=attempt,
                executor=executor,
                incarnation=incarnation,
                kinds=kinds,
                last=last,
            )
        )

    def start(self, *ids: str, timeout_ms: int = 0) -> tuple[list[int], int, int]:
        """Admit, seal and assign; return the numbers, the batch and the fence."""
        first = self.admit(*ids, timeout_ms=timeout_ms)
        numbers = list(range(first, first + len(ids)))
        batch = self.seal(*numbers)
        return numbers, batch, self.assign(batch)

    def outcome(self, number: int) -> str:
        """Return what became of a request, `-` for nothing."""
        found = self.stories.requests[number].outcome
        return "-" if found is None else f"{found.kind.name.lower()} {found.code}".strip()

    def kinds(self, number: int) -> list[str]:
        """Return what happened to a request."""
        return [event.kind for event in self.stories.requests[number].events]


def report(
    batch: int,
    fence: int,
    numbers: Sequence[int],
    *,
    attempt: int = 1,
    executor: str = "x",
    incarnation: int = 2,
    kinds: Sequence[int] = (),
    last: bool = True,
) -> r.Complete:
    """Return a report of these requests, all ok unless it is said otherwise."""
    count = len(numbers)
    found = tuple(kinds) or (0,) * count
    return r.Complete(
        batch,
        attempt,
        fence,
        executor,
        incarnation,
        last,
        *(1, 2, 3_000_000, 4),
        (count,),
        b"f",
        tuple(numbers),
        found,
        tuple("bad" if kind else "" for kind in found),
        ("",) * count,
        tuple(b"" if kind else b"result" for kind in found),
    )
