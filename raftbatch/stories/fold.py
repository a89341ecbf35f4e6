"""The fold: entries in, in the order of the log; each request's story and the counts out.

    stories = Stories(first_index)
    for index, term, entry in entries:
        stories.feed(index, term, entry)
    assert stories.counts.lost == stories.counts.doubled == 0

It reads every record, applies the rules that GUARANTEES.md promises, by code of its own, and
so can contradict the coordinators' state machine: an outcome counts only if it was in force
where it stands in the log. What lives here: the order of things in an entry, records of
leaders, executors and operators, and the sums. What must never live here: a file or a socket,
or anything of the coordinators'. Called by: the command line, whoever counts offline.
Deterministic.
"""

from __future__ import annotations

from typing import assert_never

from raftbatch import records as r
from raftbatch.errors import Invariant
from raftbatch.settings import Model
from raftbatch.stories import admitting, batching, timing
from raftbatch.stories.ledger import Holder, Ledger
from raftbatch.stories.values import BatchStory, Counts, Story


class Stories:
    """See the module's docstring.

    Args:
        first_index: of the first entry of the log that is read. Above 1 a snapshot stands for
            what comes before: then only those requests count whose admission was read, and
            what is missing is taken to have been right.
    """

    def __init__(self, first_index: int = 1) -> None:
        self._ledger = Ledger(first_index)

    @property
    def index(self) -> int:
        """Index of the last entry that was fed."""
        return self._ledger.index

    @property
    def at_ms(self) -> int:
        """Log time of that."""
        return self._ledger.now_ms

    @property
    def since(self) -> int:
        """Index of the first entry of the log that is read."""
        return self._ledger.since

    @property
    def is_whole(self) -> bool:
        """Whether the log was read from its beginning."""
        return not self._ledger.is_partial

    @property
    def requests(self) -> dict[int, Story]:
        """Requests by number; also those that the log only names (`Story.is_whole`)."""
        return self._ledger.stories

    @property
    def batches(self) -> dict[int, BatchStory]:
        """Batches by number."""
        return self._ledger.batch_stories

    def find(self, request_id: str, tenant: str = "") -> list[Story]:
        """Return the stories of an id, in log order: of one tenant, or of all.

        One id is several requests where its retention was over in between; an id that was
        cancelled before it came has one, too.
        """
        everything = [*self._ledger.stories.values(), *self._ledger.cancelled]
        return [
            story
            for story in everything
            if story.request_id == request_id and tenant in ("", story.tenant)
        ]

    def window_of(self, story: Story) -> tuple[int, int] | None:
        """Return the window that a request waits in; None: it is in none, or that is not known."""
        window = self._ledger.windows.get(story.key, {})
        if not self.is_whole or story.number not in window:
            return None
        return self._ledger.window_id(story.key)

    @property
    def counts(self) -> Counts:
        """What the log comes to so far. Made anew at each call."""
        counts = self._ledger.counts
        found = Counts(
            requests=counts.requests,
            repeated=counts.repeated,
            refused=counts.refused,
            dismissed=counts.dismissed,
            lapses=counts.lapses,
            batches=counts.batches,
            rows=counts.rows,
            reasons=dict(counts.reasons),
            bisected=counts.bisected,
            quarantined=counts.quarantined,
        )
        for story in self._ledger.stories.values():
            if not story.is_whole:
                continue
            if story.outcome is not None:
                kind = story.outcome.kind.name.lower()
                found.outcomes[kind] = found.outcomes.get(kind, 0) + 1
            elif self.is_whole:
                found.lost += 1
            else:
                found.unsure += 1
            found.doubled += bool(story.others)
            found.reruns += story.runs > 1
        return found

    def feed(self, index: int, term: int, entry: r.Entry) -> None:
        """Take in the next entry.

        Args:
            index: of the entry; above the last one's.
            term: Raft's, of the entry: an entry whose proposer led another does nothing.
            entry: decoded.

        Raises:
            Invariant: the index is not above the last, or a record is of a kind that is not
                known here.
        """
        ledger = self._ledger
        if index <= ledger.index:
            raise Invariant(f"entry {index} is fed to stories that are at {ledger.index}")
        ledger.index = index
        begins = bool(entry.records) and type(entry.records[0]) is r.Lead and term > ledger.term
        if ledger.is_partial and not ledger.term:
            ledger.term = term  # whoever lacks the beginning has to believe the first
        if entry.term != term or (term != ledger.term and not begins):
            return
        timing.advance(ledger, entry.at_ms)
        if begins:
            ledger.term = term
        for record in entry.records:
            _feed_record(ledger, record)
        if ledger.deleting:
            timing.finish_deleted(ledger)


def _feed_record(ledger: Ledger, record: object) -> None:
    match record:
        case r.Admit():
            admitting.admit(ledger, record)
        case r.Seal():
            batching.seal(ledger, record)
        case r.Assign():
            batching.assign(ledger, record)
        case r.Complete():
            batching.complete(ledger, record)
        case r.Cancel():
            admitting.cancel(ledger, record)
        case r.Acknowledge() | r.Forget():
            admitting.acknowledge(ledger, record)
        case r.Lapse():
            batching.lapse(ledger, record)
        case r.Bisect():
            batching.bisect(ledger, record)
        case r.Quarantine():
            batching.quarantine(ledger, record)
        case r.ReleaseQuarantined():
            batching.release_quarantined(ledger, record)
        case r.Lead() | r.Advance():
            pass  # what they do, every entry does: a term begins, time passes
        case r.Join() | r.Ready() | r.Drain() | r.Leave() | r.Free() | r.Probe():
            _feed_executor(ledger, record)
        case r.PutModel():
            _put_model(ledger, record.model)
        case r.DeleteModel():
            if (record.name, record.version) in ledger.models:
                ledger.deleting[(record.name, record.version)] = None
        case r.PutPolicy():
            ledger.policy = record.policy
        case _:
            raise Invariant(
                f"entry {ledger.index} holds a {type(record).__name__}, of which this fold knows "
                "nothing: run the version that the cluster runs"
            )


def _put_model(ledger: Ledger, model: Model) -> None:
    """Add a version, or change its settings where nothing that waits would break them."""
    name = (model.name, model.version)
    old = ledger.models.get(name)
    if name in ledger.deleting:
        return
    if old is None:
        if len(ledger.models) >= ledger.policy.models_max:
            return
    elif ledger.model_use((*name, "")).requests and (
        model.rows_max < old.rows_max
        or bool(model.max_batch_size) != bool(old.max_batch_size)
        or model.max_batch_bytes < old.max_batch_bytes
        or model.priority_levels < old.priority_levels
    ):
        return
    ledger.models[name] = model


def _feed_executor(
    ledger: Ledger, record: r.Join | r.Ready | r.Drain | r.Leave | r.Free | r.Probe
) -> None:
    if isinstance(record, r.Join):
        _join(ledger, record)
        return
    holder = ledger.holder(record.executor, record.incarnation)
    if holder is None:
        return
    match record:
        case r.Ready():
            holder.models = frozenset(record.models)
        case r.Drain():
            holder.is_draining = record.on
        case r.Leave():
            if holder.incarnation != ledger.index:
                ledger.end_executor(holder, lost=record.lost, running=record.running)
        case r.Free():
            for slot in zip(record.batches, record.fences, strict=True):
                if holder.held.get(slot):
                    del holder.held[slot]
        case r.Probe():
            if holder.is_suspended and record.succeeded:
                holder.is_suspended = False
                holder.failures.clear()
        case _:
            assert_never(record)


def _join(ledger: Ledger, record: r.Join) -> None:
    live = ledger.executors.get(record.executor)
    if ledger.is_partial:
        ledger.joined.add((record.executor, ledger.index))
    if live is None and 0 < record.replaces < ledger.since:
        live = ledger.holder(record.executor, record.replaces)
    if live is not None:
        if live.incarnation != record.replaces or live.incarnation == ledger.index:
            return
        ledger.end_executor(live, lost=True)
    elif len(ledger.executors) >= ledger.policy.executors_max:
        return
    ledger.executors[record.executor] = Holder(
        record.executor, ledger.index, record.slots, frozenset(record.models)
    )
