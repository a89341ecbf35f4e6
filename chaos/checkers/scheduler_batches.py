"""Batches and executors in the checker's model: fences, attempts, slots.

What lives here: the records about them, and what their effects have to be. What
must never live here: requests (`scheduler_model`). Called by:
`chaos.checkers.scheduler_model`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaos.checkers.scheduler_facts import Facts
from chaos.checkers.scheduler_runs import RunHistory
from chaos.checkers.scheduler_stories import (
    Complain,
    Group,
    Holder,
    Placement,
    Story,
    backoff_ms,
)
from coordinator.core.effects import Change, Reply, Verdict
from raftbatch import records as r
from raftbatch.kinds import LapseReason, OutcomeKind, Ran

if TYPE_CHECKING:
    from chaos.checkers.scheduler_model import Model

_FAILURES = (LapseReason.FAILED, LapseReason.TIMED_OUT, LapseReason.EXECUTOR_LOST)
_UNSAID = ("no_outcome", "result_too_large")
"""Failures that no run reports: `apply` finds them."""


class Batches:
    """See the module's docstring.

    Args:
        model: what it is a part of.
        complain: takes a broken promise.
        counts: what was seen.
        runs: what executors ran.
        facts: takes what an entry's effects have to be.

    Attributes:
        groups: batches that are there, by number.
        holders: live executors, by id.
    """

    def __init__(
        self,
        model: Model,
        complain: Complain,
        counts: Counter[str],
        runs: RunHistory,
        facts: Facts,
    ) -> None:
        self.groups: dict[int, Group] = {}
        self.holders: dict[str, Holder] = {}
        self._model = model
        self._complain = complain
        self._counts = counts
        self._runs = runs
        self._last = 0
        self._facts = facts
        self._fact = facts.note

    def is_assigned(self, story: Story) -> bool:
        """Return whether a request is in a batch that an executor has."""
        return bool(story.batch) and bool(self.groups[story.batch].executor)

    def of(self, model_id: tuple[str, str]) -> int:
        """Return how many batches of a model version there are."""
        return sum(group.key[:2] == model_id for group in self.groups.values())

    def left(self, story: Story, *, early: bool) -> None:
        """Take a request that has ended out of its batch; `early`: no report was about it."""
        group = self.groups[story.batch]
        del group.open[story.number]
        if not early:
            return
        if group.executor:
            self._facts.shed(group.number, group.fence, story.number)
        elif not group.open:
            self._drop(group, is_gone=True)

    def follow(self, record: r.Record, reply: Reply) -> None:
        """Judge a record and the reply to it."""
        is_done = reply.verdict is Verdict.OK
        match record:
            case r.Complete():
                self._complete(record, reply)
            case r.Lapse():
                self._lapse(record, is_done)
            case r.Seal() if is_done:
                self._seal(record, reply)
            case r.Assign() if is_done:
                self._assign(record, reply)
            case r.Bisect() if is_done:
                self._bisect(record)
            case r.Quarantine() if is_done:
                self._quarantine(record)
            case r.Join() if is_done:
                self._join(record, reply)
            case r.Ready() | r.Drain() | r.Leave() | r.Free() | r.Probe() if is_done:
                holder = self.holders.get(record.executor)
                if holder is None or holder.incarnation != record.incarnation:
                    self._complain(f"{record} is done, of no live incarnation")
                else:
                    self._change(holder, record, reply)
            case _:
                pass

    # Batches.

    def _is_next(self, number: int) -> None:
        if number <= self._last:
            self._complain(f"batch {number} comes after batch {self._last}")
        self._last = max(self._last, number)

    def _seal(self, record: r.Seal, reply: Reply) -> None:
        self._is_next(record.batch)
        model = self._model.models.get(record.key[:2])
        waiting = self._model.open
        stories = [
            story
            for number in record.numbers
            if (story := waiting.get(number)) is not None and not story.batch
        ]
        if not stories or reply.value != len(stories) or model is None:
            self._complain(f"batch {record.batch} has {reply.value} requests, of {stories}")
            return
        rows, size = sum(each.rows for each in stories), sum(each.size for each in stories)
        if rows > (model.max_batch_size or 1) or size > model.max_batch_bytes:
            self._complain(f"batch {record.batch} has {rows} rows and {size} bytes")
        if any(each.key != record.key for each in stories):
            self._complain(f"batch {record.batch} mixes {record.key} with others")
        if any(0 < each.deadline_ms <= self._model.now_ms for each in stories):
            self._complain(f"batch {record.batch} has requests past their deadline")
        aging_ms = model.priority_aging_ms
        self._model.waiting.seal(record.batch, stories, self._model.now_ms, aging_ms)
        self._add(
            Group(
                record.batch,
                record.batch,
                record.key,
                tuple(each.number for each in stories),
                model.attempts_max,
                model.attempts_max,
                model.assigned_max,
                dict.fromkeys(each.number for each in stories),
            )
        )

    def _assign(self, record: r.Assign, reply: Reply) -> None:
        group, holder = self.groups.get(record.batch), self.holders.get(record.executor)
        model, index = self._model, self._model.index
        if group is None or holder is None or holder.incarnation != record.incarnation:
            self._complain(f"entry {index} assigns batch {record.batch} to {record.executor}")
            return
        why_not = {
            "is assigned already": bool(group.executor),
            "is exhausted": group.is_exhausted,
            "has another attempt next": record.attempt != group.assigned + 1,
            "is in backoff": group.not_before_ms > model.now_ms,
            "has a fence that is not the entry": reply.value != index,
            "is for no slot": len(holder.held) >= holder.slots,
            "is for an executor that gets nothing": holder.is_draining or holder.is_suspended,
            "has its model not ready there": group.key[:2] not in holder.models,
            "is of a deleted model": group.key[:2] in model.deleting,
            "has a request past its deadline": any(
                0 < model.stories[number].deadline_ms <= model.now_ms for number in group.open
            ),
            "has nobody in it": not group.open,
        }
        for why, it_is in why_not.items():
            if it_is:
                self._complain(f"entry {index} assigns batch {group.number}, which {why}")
        group.assigned, group.has_success = record.attempt, False
        group.executor, group.incarnation = holder.executor, holder.incarnation
        group.fence = index
        holder.held[group.number, index] = False
        self._runs.placed[group.number, index] = Placement(
            holder.executor, holder.incarnation, record.attempt, frozenset(group.open)
        )
        self._fact("placed", holder.executor, holder.incarnation, group.number, index)
        self._counts["attempts_again"] += record.attempt > 1

    def _lapse(self, record: r.Lapse, is_done: bool) -> None:
        group = self.groups.get(record.batch)
        is_current = group is not None and group.is_at(record.attempt, record.fence)
        if is_done != is_current:
            self._complain(f"{record} is done: {is_done}")
        elif group is not None and is_done:
            self._take_back(group, record.reason, record.ran, record.stopped)

    def _take_back(self, group: Group, reason: LapseReason, ran: Ran, stopped: bool) -> None:
        has_failed = ran is Ran.YES and reason in _FAILURES
        self._fact("revoked", group.executor, group.incarnation, group.number, group.fence)
        group.failed += has_failed
        holder = self.holders.get(group.executor)  # None: its incarnation is ending
        if holder is not None:
            holder.held[group.number, group.fence] = True
            if stopped:
                del holder.held[group.number, group.fence]
            if has_failed:
                self._fails(holder, group.root)
        waits = has_failed or reason is LapseReason.REFUSED
        model = self._model.models[group.key[:2]]
        times = group.failed if has_failed else group.assigned
        delay_ms = backoff_ms(model, times) if waits else 0
        group.not_before_ms = self._model.now_ms + delay_ms if delay_ms else 0
        group.executor, group.incarnation, group.fence = "", 0, 0
        group.has_success = False
        self._counts[f"lapsed_{reason.name.lower()}"] += 1
        if not group.open:
            self._drop(group, is_gone=True)

    def _complete(self, record: r.Complete, reply: Reply) -> None:
        group = self.groups.get(record.batch)
        by = (record.executor, record.incarnation)
        is_current = (
            group is not None
            and group.is_at(record.attempt, record.fence)
            and (group.executor, group.incarnation) == by
        )
        if reply.verdict is Verdict.STALE_FENCE:
            self._counts["stale_reports"] += 1
            if is_current:
                self._complain(f"a report under the current fence is stale: {record}")
            return
        if reply.verdict is not Verdict.OK:
            self._complain(f"a report is answered {reply}: {record}")
            return
        if group is None or not is_current:
            self._complain(f"a report under another fence than the current is taken: {record}")
            return
        ended = [
            (number, OutcomeKind(kind), result)
            for number, kind, result in zip(record.numbers, record.kind, record.result, strict=True)
            if number in group.open
        ]
        for number, kind, result in ended:
            self._reported(record, number, kind, result)
        rest = list(group.open) if record.last else []
        for number in rest:
            outcome = self._model.given(number)
            if outcome is None or outcome.kind is not OutcomeKind.FAILED:
                self._complain(f"request {number} is reported by nobody, and has {outcome}")
            else:
                self._model.end(number)
        if reply.value != len(ended) + len(rest):
            self._complain(f"{reply.value} requests are ended by {record}")
        group.has_success = group.has_success or OutcomeKind.OK in record.kind
        if record.last:
            self._finish(group, record)

    def _reported(self, record: r.Complete, number: int, kind: OutcomeKind, result: bytes) -> None:
        """Judge the outcome of a request that a report names."""
        outcome = self._model.given(number)
        if outcome is None:
            self._complain(f"request {number} is reported, and has no outcome")
            return
        is_large = kind is OutcomeKind.OK and len(result) > self._model.policy.result_bytes_max
        wanted = OutcomeKind.FAILED if is_large else kind
        run = outcome.run
        by = (record.batch, record.attempt, record.fence, record.executor, record.incarnation)
        if outcome.kind is not wanted or (run is None and outcome.is_kept):
            self._complain(f"request {number} is reported {wanted.name}, and has {outcome}")
        elif run is not None and tuple(run[:5]) != by:
            self._complain(f"request {number} is reported by {by}, and has {outcome}")
        if outcome.code not in _UNSAID:
            self._runs.reported(record, number, kind, result)
        self._model.end(number)

    def _finish(self, group: Group, record: r.Complete) -> None:
        holder = self.holders[group.executor]
        holder.held.pop((group.number, group.fence), None)
        if group.has_success:
            holder.failures = []
        elif record.kind:
            self._fails(holder, group.root)
        self._fact("finished", group.executor, group.incarnation, group.number, group.fence)
        self._drop(group)

    def _bisect(self, record: r.Bisect) -> None:
        group = self.groups.get(record.batch)
        if group is None or group.executor or not group.is_exhausted or len(group.members) < 2:
            self._complain(f"batch {record.batch} is halved: {group}")
            return
        self._is_next(record.left)
        self._is_next(record.right)
        left = sorted(group.open)
        middle = (len(left) + 1) // 2
        self._drop(group, is_gone=True)
        for number, members in ((record.left, left[:middle]), (record.right, left[middle:])):
            if members:
                self._add(
                    Group(
                        number,
                        group.root,
                        group.key,
                        tuple(members),
                        group.attempts_single_max if len(members) == 1 else 1,
                        group.attempts_single_max,
                        group.assigned_max,
                        dict.fromkeys(members),
                    )
                )

    def _quarantine(self, record: r.Quarantine) -> None:
        group = self.groups.get(record.batch)
        if group is None or group.executor or not group.is_exhausted or len(group.members) != 1:
            self._complain(f"batch {record.batch} is set aside: {group}")
            return
        (number,) = group.members
        outcome = self._model.given(number)
        if outcome is None or outcome.kind is not OutcomeKind.FAILED:
            self._complain(f"request {number} is set aside, and has {outcome}")
            return
        self._model.end(number)
        self._drop(group, is_gone=True)
        self._counts["set_aside"] += 1

    def _add(self, group: Group) -> None:
        self.groups[group.number] = group
        for number in group.members:
            self._model.stories[number].batch = group.number
        self._fact("waits", group.number)

    def _drop(self, group: Group, *, is_gone: bool = False) -> None:
        del self.groups[group.number]
        if is_gone:
            self._fact("gone", group.number)

    # Executors.

    def _fails(self, holder: Holder, root: int) -> None:
        """Several batches that fail in a row suspend an executor; halves of one are one."""
        if root in holder.failures:
            return
        holder.failures.append(root)
        most = self._model.policy.executor_failures_max
        if len(holder.failures) >= most and not holder.is_suspended:
            holder.is_suspended = True
            self._fact("executor", holder.executor, holder.incarnation, Change.SUSPENDED)
        holder.failures = holder.failures[-most:]

    def _join(self, record: r.Join, reply: Reply) -> None:
        index = self._model.index
        live = self.holders.get(record.executor)
        if live is not None:
            if live.incarnation != record.replaces:
                self._complain(f"{record.executor} joins, though {live.incarnation} is live")
            self._end_of(live, True, ())
        if reply.value != index:
            self._complain(f"{record.executor} joins as {reply.value}, with entry {index}")
        self.holders[record.executor] = Holder(
            record.executor, index, record.slots, frozenset(record.models)
        )
        self._fact("executor", record.executor, index, Change.JOINED)

    def _change(
        self, holder: Holder, record: r.Ready | r.Drain | r.Leave | r.Free | r.Probe, reply: Reply
    ) -> None:
        changes: Sequence[Change] = ()
        match record:
            case r.Ready():
                holder.models, changes = frozenset(record.models), (Change.READY,)
            case r.Drain():
                holder.is_draining = record.on
                changes = (Change.DRAINING if record.on else Change.RESUMED,)
            case r.Leave():
                self._end_of(holder, record.lost, record.running)
            case r.Probe():
                if record.succeeded:
                    holder.is_suspended, holder.failures = False, []
                    changes = (Change.PROBED,)
            case r.Free():
                stopped = set(zip(record.batches, record.fences, strict=True))
                freed = [at for at, lapsed in holder.held.items() if lapsed and at in stopped]
                for at in freed:
                    del holder.held[at]
                if reply.value != len(freed):
                    self._complain(f"{reply.value} slots are freed by {record}: {holder}")
                changes = (Change.FREED,) if freed else ()
        for change in changes:
            self._fact("executor", holder.executor, holder.incarnation, change)

    def _end_of(self, holder: Holder, lost: bool, running: tuple[int, ...]) -> None:
        """End an incarnation: what it held is taken back."""
        reason = LapseReason.EXECUTOR_LOST if lost else LapseReason.DRAINED
        del self.holders[holder.executor]
        for (batch, _), lapsed in list(holder.held.items()):
            if not lapsed:
                ran = Ran.YES if batch in running else Ran.UNKNOWN
                self._take_back(self.groups[batch], reason, ran, True)
        change = Change.LOST if lost else Change.GONE
        self._fact("executor", holder.executor, holder.incarnation, change)
