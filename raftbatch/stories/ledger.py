"""The fold's own books: what waits where, who holds what, and when things are due.

Not the coordinators' state machine, and none of its code: it is there to contradict it. It
knows the words of the log and the rules that docs/GUARANTEES.md promises. What lives here: the
books, and the one place where a request gets its outcome. What must never live here: which
record does what (`admitting`, `batching`, `fold`). Called by: these. Total. Deterministic.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappush

from raftbatch.kinds import Key, LapseReason, OutcomeKind, Ran
from raftbatch.settings import POLICY_AT_FIRST, Model
from raftbatch.stories.values import BatchStory, Counts, Event, Outcome, Story

ModelId = tuple[str, str]
Name = tuple[str, str]

OUTCOME_BYTES = 128
"""What an outcome is counted as, beside its result and message."""

_FAILURES = (LapseReason.FAILED, LapseReason.TIMED_OUT, LapseReason.EXECUTOR_LOST)
_RAN = {Ran.NO: ", had not run", Ran.YES: ", was running", Ran.UNKNOWN: ", may have run"}
_DOUBLINGS_MAX = 64
_GRAIN_BITS = 8  # a deadline is looked at within 1/256 of its timeout
_ANY = 1 << 62


@dataclass(slots=True)
class Holder:
    """A live incarnation of an executor.

    Attributes:
        models: that it has ready.
        held: what takes its slots, (batch, fence): whether that has lapsed.
        failures: root batches that failed there in a row.
    """

    executor: str
    incarnation: int
    slots: int
    models: frozenset[ModelId]
    held: dict[tuple[int, int], bool] = field(default_factory=dict)
    is_draining: bool = False
    is_suspended: bool = False
    failures: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Waiting:
    """Requests without an outcome, their rows and bytes; and cancels of ids that never came."""

    requests: int = 0
    rows: int = 0
    size: int = 0
    cancels: int = 0


class Ledger:
    """See the module's docstring.

    Args:
        since: index of the first entry that is read: above 1 the log lacks its beginning, and
            what it does not say is taken to have been right.

    Attributes:
        index, now_ms, term: of the last entry.
        policy, models, deleting: what operators have put.
        executors: live ones, by id.
        joined: where the log lacks its beginning, ids and indexes of all Joins.
        open: requests without an outcome, by number.
        windows: those of them that wait to be sealed, by batch key, in log order.
        batches: that are not done with, by number.
        known: the last story of each id that is known.
        repeats: numbers of admissions that repeated a known id, and whose.
        waiting: by `None` (all), model version, and tenant.
        outcome_bytes: of outcomes whose content is kept.
        left: the same, by tenant.
        stories, batch_stories: everything, by number.
        whole: outcomes with their content, the oldest first.
        bare: outcomes of which the id alone is known, the same.
        due: a heap of when to look at deadlines, and whose.
        cancelled: ids that were cancelled before they came.
        counts: what is counted as it happens; the rest is summed at the end.
    """

    def __init__(self, since: int) -> None:
        self.since = since
        self.is_partial = is_partial = since > 1
        self.index = self.now_ms = self.term = 0
        self.next_request = self.next_batch = 0 if is_partial else 1
        self.policy = POLICY_AT_FIRST
        self.models: dict[ModelId, Model] = {}
        self.deleting: dict[ModelId, None] = {}
        self.executors: dict[str, Holder] = {}
        self.joined: set[tuple[str, int]] = set()
        self.open: dict[int, Story] = {}
        self.windows: dict[Key, dict[int, Story]] = {}
        self.batches: dict[int, BatchStory] = {}
        self.known: dict[Name, Story] = {}
        self.repeats: dict[int, Story] = {}
        self.waiting: dict[object, Waiting] = {None: Waiting()}
        self.tenants: dict[str, Waiting] = {}
        self.outcome_bytes = 0
        self.left: Counter[str] = Counter()
        self.stories: dict[int, Story] = {}
        self.batch_stories: dict[int, BatchStory] = {}
        self.cancelled: list[Story] = []
        self.counts = Counts()
        self.whole: deque[Story] = deque()
        self.bare: deque[Story] = deque()
        self.due: list[tuple[int, int]] = []

    # Requests.

    def event(self, kind: str, **of: object) -> Event:
        """Return an event of the entry that is being read."""
        return Event(self.index, self.now_ms, kind, **of)  # type: ignore[arg-type]

    def admit(self, story: Story, timeout_ms: int) -> None:
        """Let a request wait in its window."""
        self.stories[story.number] = self.open[story.number] = self.known[story.name] = story
        self.windows.setdefault(story.key, {})[story.number] = story
        for use in (self.waiting[None], self.model_use(story.key), self.tenant_use(story.tenant)):
            use.requests += 1
            use.rows += story.rows
            use.size += story.size
        if timeout_ms:
            story.deadline_ms = self.now_ms + timeout_ms
            grain = timeout_ms >> _GRAIN_BITS or 1
            heappush(self.due, (-(-story.deadline_ms // grain) * grain, story.number))

    def model_use(self, key: Key) -> Waiting:
        """Return what waits for a model version."""
        return self.waiting.setdefault(key[:2], Waiting())

    def tenant_use(self, tenant: str) -> Waiting:
        """Return what a tenant has waiting."""
        return self.tenants.setdefault(tenant, Waiting())

    def forget_idle_tenants(self, tenants: Iterable[str]) -> None:
        """Drop the counts of tenants that have nothing."""
        for tenant in tenants:
            use = self.tenants.get(tenant)
            if use is not None and not use.requests and not use.cancels:
                del self.tenants[tenant]

    def window_id(self, key: Key) -> tuple[int, int]:
        """Return what a window is called by: when it was opened, and by which index.

        It is opened by the oldest request that waits in it; zeros: none does, or the log that is
        read lacks its beginning, and does not say who that is.
        """
        window = self.windows.get(key)
        if not window or self.is_partial:
            return 0, 0
        oldest = next(iter(window.values()))
        return oldest.at_ms, oldest.admitted_index

    def leave_window(self, story: Story) -> None:
        """Let a request wait in its window no more."""
        window = self.windows[story.key]
        del window[story.number]
        if not window:
            del self.windows[story.key]

    def end(
        self,
        story: Story,
        kind: OutcomeKind,
        code: str = "",
        message: str = "",
        *,
        result_bytes: int = 0,
        run: tuple[int, int, int, str] = (0, 0, 0, ""),
    ) -> None:
        """Give an open request its outcome. Where it stood is the caller's to mend."""
        outcome = Outcome(kind, code, message, result_bytes, self.index, self.now_ms, *run)
        story.outcome = outcome
        said = kind.name.lower() + (f": {code}" if code else "")
        batch, attempt, _, executor = run
        story.events.append(
            self.event("ended", batch=batch, attempt=attempt, executor=executor, note=said)
        )
        del self.open[story.number]
        for use in (self.waiting[None], self.model_use(story.key), self.tenant_use(story.tenant)):
            use.requests -= 1
            use.rows -= story.rows
            use.size -= story.size
        self.forget_idle_tenants((story.tenant,))
        self.remember(story)

    def remember(self, story: Story) -> None:
        """Keep an outcome for its retention."""
        self.whole.append(story)
        self._count_kept(story, bytes_of(story))

    def drop_content(self, story: Story) -> bool:
        """Let an outcome's content go; return whether it was there."""
        if not story.is_kept:
            return False
        self._count_kept(story, -bytes_of(story))
        story.is_kept = False
        return True

    def _count_kept(self, story: Story, size: int) -> None:
        self.outcome_bytes += size
        self.left[story.tenant] += size
        if not self.left[story.tenant]:
            del self.left[story.tenant]

    def end_early(
        self, stories: Iterable[Story], kind: OutcomeKind, code: str = "", message: str = ""
    ) -> None:
        """End open requests that no report is about, wherever they are."""
        left: dict[int, None] = {}
        for story in stories:
            if story.batch:
                del self.batches[story.batch].open[story.number]
                left[story.batch] = None
            else:
                self.leave_window(story)
            self.end(story, kind, code, message)
        for number in left:
            batch = self.batches[number]
            if not batch.open and batch.live is None:
                self.drop_batch(batch, "emptied")

    # Batches.

    def add_batch(self, batch: BatchStory) -> None:
        """Let a batch wait to be assigned."""
        self.batches[batch.number] = self.batch_stories[batch.number] = batch
        for number in batch.members:
            self.open[number].batch = batch.number

    def drop_batch(self, batch: BatchStory, how: str) -> None:
        """Be done with a batch."""
        del self.batches[batch.number]
        batch.end, batch.end_index, batch.end_ms = how, self.index, self.now_ms

    def holder(self, executor: str, incarnation: int) -> Holder | None:
        """Return a live incarnation; None: it is not the one that lives.

        Where the log lacks its beginning, one that joined before is taken to be there.
        """
        live = self.executors.get(executor)
        if live is not None and live.incarnation == incarnation:
            return live
        # Whether a Join was refused, since another incarnation lived, is not known either: it was
        # not where a leader goes on to name it.
        is_told = incarnation < self.since or (executor, incarnation) in self.joined
        if not self.is_partial or not is_told:
            return None
        if live is not None:
            if live.incarnation > incarnation:
                return None
            self.end_executor(live, lost=True)
        found = self.executors[executor] = Holder(executor, incarnation, _ANY, frozenset())
        return found

    def take_back(
        self,
        batch: BatchStory,
        reason: LapseReason,
        ran: Ran,
        *,
        stopped: bool = True,
        code: str = "",
        message: str = "",
    ) -> None:
        """End the live assignment of a batch without a report."""
        attempt = batch.live
        assert attempt is not None
        has_failed = ran is Ran.YES and reason in _FAILURES
        batch.failed += has_failed
        attempt.how, attempt.ran = "lapsed", ran
        attempt.ended_index, attempt.ended_ms = self.index, self.now_ms
        said = reason.name.lower()
        attempt.why = f"{said}: {code}" if code not in ("", said) else said
        self.counts.lapses += 1
        lapsed = self.event(
            "lapsed",
            batch=batch.number,
            attempt=attempt.attempt,
            executor=attempt.executor,
            note=attempt.why + _RAN[ran],
        )
        for number in attempt.open:
            self.stories[number].events.append(lapsed)
            self.stories[number].runs -= ran is Ran.NO
        live = self.executors.get(attempt.executor)
        if live is not None and live.incarnation == attempt.incarnation:
            slot = (batch.number, attempt.fence)
            if stopped:
                live.held.pop(slot, None)
            else:
                live.held[slot] = True
            if has_failed:
                self.note_failure(live, batch.root)
        if not batch.open:
            self.drop_batch(batch, "emptied")
            return
        waits = has_failed or reason is LapseReason.REFUSED
        times = batch.failed if has_failed else batch.assigned
        delay_ms = self._backoff_ms(batch, times) if waits else 0
        batch.not_before_ms = self.now_ms + delay_ms if delay_ms else 0
        batch.has_success = False
        batch.code, batch.message = code or batch.code, message or batch.message

    def note_failure(self, holder: Holder, root: int) -> None:
        """Count a batch that failed on an executor; its halves are one with it."""
        if root in holder.failures:
            return
        if self.is_partial:  # nor is it known how many it takes, nor what came before
            return
        most = self.policy.executor_failures_max
        holder.failures.append(root)
        holder.is_suspended = holder.is_suspended or len(holder.failures) >= most
        del holder.failures[:-most]

    def end_executor(self, holder: Holder, *, lost: bool, running: tuple[int, ...] = ()) -> None:
        """End an incarnation: what it held is taken back."""
        del self.executors[holder.executor]
        for (number, _), is_lapsed in holder.held.items():
            if not is_lapsed:
                self.take_back(
                    self.batches[number],
                    LapseReason.EXECUTOR_LOST if lost else LapseReason.DRAINED,
                    Ran.YES if number in running else Ran.UNKNOWN,
                    code="executor_lost" if lost else "",
                    message=f"{holder.executor} was lost" if lost else "",
                )

    def _backoff_ms(self, batch: BatchStory, times: int) -> int:
        model = self.models.get(batch.key[:2])
        if model is None:
            return 0
        delay_ms = model.backoff_initial_ms
        for _ in range(min(times - 1, _DOUBLINGS_MAX)):
            if delay_ms >= model.backoff_max_ms:
                break
            delay_ms = delay_ms * model.backoff_permille // 1000
        return min(delay_ms, model.backoff_max_ms)


def bytes_of(story: Story) -> int:
    """Return what the outcome of a story is counted as."""
    outcome = story.outcome
    assert outcome is not None
    return OUTCOME_BYTES + outcome.result_bytes + len(outcome.message)
