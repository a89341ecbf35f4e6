"""What the checker of the scheduler knows: requests, batches, executors, by its own count.

What lives here: the values of the model, and the promises about waiting and log
order that can be judged from them alone. What must never live here: the product's
rules. Called by: `chaos.checkers.scheduler_model`, and by the histories, that look
things up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from coordinator.core.values import Outcome
from raftbatch.kinds import Key
from raftbatch.settings import Model, Policy

Complain = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Story:
    """One request, from the entry that admitted it on; or an id cancelled before it came.

    Attributes:
        number: 0: it never was admitted.
        name: tenant, NUL, request id.
        ticket: index of the entry that admitted it.
        traceparent: of the very submit that came through.
        batch: where it is; 0: in its window.
        ended: its outcome, as it was given; None: it is open.
        is_acknowledged: whether its content may be gone before its retention is over.
    """

    number: int
    name: str
    key: Key = ("", "", "")
    rows: int = 0
    size: int = 0
    priority: int = 0
    at_ms: int = 0
    deadline_ms: int = 0
    ticket: int = 0
    content_hash: bytes = b""
    payload: bytes = b""
    parameters: bytes = b""
    traceparent: str = ""
    batch: int = 0
    ended: Outcome | None = None
    is_acknowledged: bool = False

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.name.partition("\0")[0]

    def must_be_known(self, policy: Policy, now_ms: int) -> bool:
        """Return whether its id may not have been forgotten by this log time."""
        return self.ended is None or self.ended.at_ms + policy.dedupe_retention_ms > now_ms

    def must_be_whole(self, policy: Policy, now_ms: int) -> bool:
        """Return whether its outcome may not have been forgotten by this log time."""
        ended = self.ended
        return (
            ended is not None
            and not self.is_acknowledged
            and ended.at_ms + policy.outcome_retention_ms > now_ms
        )


@dataclass(slots=True, eq=False)
class Group:
    """A batch.

    Attributes:
        members: numbers, in order, also of those that have ended.
        open: those that have not.
        fence: of the current assignment; 0: it is nowhere.
        not_before_ms: end of its backoff.
        has_success: whether a part of the current attempt's report brought an `ok`.
    """

    number: int
    root: int
    key: Key
    members: tuple[int, ...]
    attempts_max: int
    attempts_single_max: int
    assigned_max: int
    open: dict[int, None]
    assigned: int = 0
    failed: int = 0
    executor: str = ""
    incarnation: int = 0
    fence: int = 0
    not_before_ms: int = 0
    has_success: bool = False

    def is_at(self, attempt: int, fence: int) -> bool:
        """Return whether this is its current assignment."""
        return bool(self.executor) and (self.assigned, self.fence) == (attempt, fence)

    @property
    def is_exhausted(self) -> bool:
        """Whether it has had all its attempts."""
        return self.failed >= self.attempts_max or self.assigned >= self.assigned_max


@dataclass(slots=True, eq=False)
class Holder:
    """A live incarnation of an executor.

    Attributes:
        held: what takes its slots, (batch, fence), in order: whether it has lapsed.
        failures: roots of batches that failed there in a row.
    """

    executor: str
    incarnation: int
    slots: int
    models: frozenset[tuple[str, str]]
    held: dict[tuple[int, int], bool] = field(default_factory=dict)
    is_draining: bool = False
    is_suspended: bool = False
    failures: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Placement:
    """An assignment that was committed.

    Attributes:
        open: members that had no outcome when it was made: those that may run.
    """

    executor: str
    incarnation: int
    attempt: int
    open: frozenset[int]


class Waiting:
    """What waits: counted against the limits, and in order.

    Args:
        complain: takes a broken promise.
    """

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._counts: dict[object, list[int]] = {}
        self._lanes: dict[Key, dict[int, dict[int, Story]]] = {}

    def add(
        self, story: Story, policy: Policy, model: Model, perhaps: Sequence[Story] = ()
    ) -> None:
        """Count one that was taken in: it must have had room.

        Args:
            story: that one.
            policy: limits.
            model: limits of its version.
            perhaps: others that may have ended just before.
        """
        own = [each for each in policy.tenants if each.tenant == story.tenant]
        limits: list[tuple[object, Sequence[int]]] = [
            (None, _limits(policy)),
            (story.key[:2], _limits(model)),
            (story.tenant, _limits(own[0]) if own else _tenant_limits(policy)),
        ]
        for whose, most in limits:
            counts = self._counts.setdefault(whose, [0, 0, 0])
            gone = [each for each in perhaps if whose in (None, each.key[:2], each.tenant)]
            less = (len(gone), sum(each.rows for each in gone), sum(each.size for each in gone))
            for place, more in enumerate((1, story.rows, story.size)):
                counts[place] += more
                if counts[place] - less[place] > most[place]:
                    what = ("requests", "rows", "bytes")[place]
                    self._complain(
                        f"{counts[place]} {what} wait for {whose or 'all'}, of {most[place]} "
                        f"that may, with request {story.number}"
                    )
        self._lanes.setdefault(story.key, {}).setdefault(story.priority, {})[story.number] = story

    def end(self, story: Story) -> None:
        """Count one no more that has ended."""
        for whose in (None, story.key[:2], story.tenant):
            counts = self._counts[whose]
            counts[0] -= 1
            counts[1] -= story.rows
            counts[2] -= story.size
        self.leave(story)

    def leave(self, story: Story) -> None:
        """Let one wait in its window no more, if it does."""
        self._lanes[story.key][story.priority].pop(story.number, None)

    def of(self, whose: object) -> tuple[int, int, int]:
        """Return requests, rows and bytes that wait: for a model version, a tenant; None: all."""
        requests, rows, size = self._counts.get(whose, (0, 0, 0))
        return requests, rows, size

    def seal(self, batch: int, stories: Sequence[Story], now_ms: int, aging_ms: int) -> None:
        """Take requests out of one window: nothing that stays goes before any of them.

        Within a batch key and an effective priority they are sealed in log order.
        """
        places = [_place(each, now_ms, aging_ms) for each in stories]
        if places != sorted(places):
            self._complain(f"batch {batch} is out of order: {places}")
        for story in stories:
            self.leave(story)
        for front in self._fronts(stories[0].key):
            place = _place(front, now_ms, aging_ms)
            if place < max(places):
                self._complain(
                    f"batch {batch} is sealed with {max(places)} (effective priority, number), "
                    f"though {place} waits"
                )

    def _fronts(self, key: Key) -> Iterator[Story]:
        """Yield the first of each lane: the oldest, and so the furthest risen."""
        for lane in self._lanes[key].values():
            if lane:
                yield next(iter(lane.values()))


def why_never(story: Story, model: Model, policy: Policy) -> str:
    """Return which limit of a request is exceeded; empty: none."""
    if story.rows > (model.max_batch_size or 1):
        return f"{story.rows} rows"
    if story.size > min(model.max_batch_bytes, policy.request_bytes_max):
        return f"{story.size} bytes"
    return f"priority {story.priority}" if story.priority >= model.priority_levels else ""


def backoff_ms(model: Model, times: int) -> int:
    """Return initial * coefficient ** (times - 1), rounded down at each step, at most the max."""
    delay_ms = model.backoff_initial_ms
    for _ in range(times - 1):
        delay_ms = min(delay_ms * model.backoff_permille // 1000, model.backoff_max_ms)
    return min(delay_ms, model.backoff_max_ms)


def _limits(of: object) -> tuple[int, int, int]:
    names = ("requests_waiting_max", "rows_waiting_max", "bytes_waiting_max")
    requests, rows, size = [getattr(of, name) for name in names]
    return requests, rows, size


def _tenant_limits(policy: Policy) -> tuple[int, int, int]:
    return (
        policy.tenant_requests_waiting_max,
        policy.tenant_rows_waiting_max,
        policy.tenant_bytes_waiting_max,
    )


def _place(story: Story, now_ms: int, aging_ms: int) -> tuple[int, int]:
    """Return effective priority and number: what orders requests of one key."""
    risen = (now_ms - story.at_ms) // aging_ms if aging_ms else 0
    return max(0, story.priority - risen), story.number
