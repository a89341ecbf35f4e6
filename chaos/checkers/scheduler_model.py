"""A model of the scheduler: what each entry may have done, by the rules alone.

It follows the log's records and the replies to them, counts for itself, and says
where a reply, an effect or an outcome cannot be: a completion under an old fence,
an id admitted twice, an outcome that nothing gave. It decides nothing and predicts
no time: what ended is taken from the effects, and has to have a reason.

What lives here: entries and requests; batches and executors are `scheduler_batches`.
What must never live here: a call of the product's core. Called by:
`chaos.checkers.scheduler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from chaos.checkers.scheduler_batches import Batches
from chaos.checkers.scheduler_facts import Facts
from chaos.checkers.scheduler_promptness import Promptness
from chaos.checkers.scheduler_runs import RunHistory
from chaos.checkers.scheduler_stories import Complain, Story, Waiting, why_never
from coordinator.core import effects as e
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from raftbatch import records as r
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import POLICY_AT_FIRST
from raftbatch.settings import Model as Settings

Lookup = Callable[[str], Outcome | None]
"""Gives the outcome of a name, as the replica that has just applied an entry has it."""

_DECISIONS = (r.Lead, r.Admit, r.Seal, r.Assign, r.Bisect, r.Quarantine)
_REFUSALS = (Verdict.VOID, Verdict.NOT_LEADER, Verdict.STALE_INCARNATION)
_KNOWN = (Verdict.KNOWN, Verdict.ENDED, Verdict.REQUEST_ID_CONFLICT, Verdict.OUTCOME_FORGOTTEN)
_COUNTED = {
    OutcomeKind.OK: "succeeded",
    OutcomeKind.FAILED: "failed",
    OutcomeKind.EXPIRED: "expired",
    OutcomeKind.CANCELLED: "cancelled",
}


class Model:
    """See the module's docstring.

    Args:
        complain: takes a broken promise.
        counts: what was seen.
        runs: what executors ran.
        answer: the result for a payload; None: it fails wherever it runs.

    Attributes:
        index, term, now_ms: of the last entry.
        stories: by number, all that ever were admitted.
        open: those without an outcome.
        names: by name, the last story of it.
        tickets: by name and ticket, all stories.
        batches: batches and executors.
        promptness: how late what expires is.
    """

    def __init__(
        self,
        complain: Complain,
        counts: Counter[str],
        runs: RunHistory,
        answer: Callable[[bytes], bytes | None],
        late_ms_max: int,
    ) -> None:
        self.index = self.term = self.now_ms = 0
        self.stories: dict[int, Story] = {}
        self.open: dict[int, Story] = {}
        self.names: dict[str, Story] = {}
        self.tickets: dict[tuple[str, int], Story] = {}
        self.policy = POLICY_AT_FIRST
        self.models: dict[tuple[str, str], Settings] = {}
        self.deleting: dict[tuple[str, str], None] = {}
        self.waiting = Waiting(complain)
        self._facts = Facts(complain)
        self.batches = Batches(self, complain, counts, runs, self._facts)
        self.totals: Counter[str] = Counter()
        self.promptness = Promptness(complain, counts, late_ms_max)
        self._complain = complain
        self._counts = counts
        self._answer = answer
        self._given: dict[int, Outcome] = {}
        self._late: dict[int, None] = {}
        self._last_number = 0

    def follow(
        self, index: int, term: int, entry: r.Entry, applied: e.Applied, look: Lookup
    ) -> None:
        """Judge an entry that no replica had applied before."""
        self.index = index
        if len(applied.replies) != len(entry.records):
            self._complain(f"entry {index} has {len(applied.replies)} replies")
            return
        begins = bool(entry.records) and isinstance(entry.records[0], r.Lead) and term > self.term
        if entry.term != term or (term != self.term and not begins):
            refused = [reply.verdict is Verdict.NOT_LEADER for reply in applied.replies]
            if applied.effects or not all(refused):
                self._complain(f"entry {index} of term {term} took effect in term {self.term}")
            self._counts["entries_refused"] += 1
            return
        self.term = term
        self.now_ms = max(self.now_ms, entry.at_ms)
        self._facts.begin(index)
        self._given = self._outcomes(applied.effects, look)
        self._find_late(entry, applied.effects)
        self._end_of_themselves()
        for record, reply in zip(entry.records, applied.replies, strict=True):
            if isinstance(record, _DECISIONS) and reply.verdict in _REFUSALS:
                self._complain(f"entry {index}: its own leader's {record} is refused: {reply}")
            self._counts[type(record).__name__.lower() + "_records"] += 1
            self._follow(record, reply)
        for number, outcome in self._given.items():
            self._complain(f"entry {index} gives request {number} {outcome}, for no reason")
        self._finish_deleted()
        self._facts.compare(applied.effects)
        self._counts["entries"] += 1

    # Outcomes.

    def _outcomes(self, effects: tuple[e.Effect, ...], look: Lookup) -> dict[int, Outcome]:
        """Return the outcomes that an entry gave, by number; each request gets one, once."""
        given: dict[int, Outcome] = {}
        for effect in effects:
            if not isinstance(effect, e.Ended):
                continue
            for request in effect.requests:
                number, outcome = request.number, look(request.name)
                is_over = number in self.stories and number not in self.open
                if is_over or number in given or outcome is None:
                    self._complain(f"entry {self.index} ends request {number} again: {outcome}")
                else:
                    given[number] = outcome
        return given

    def _is_true(self, story: Story, outcome: Outcome) -> bool:
        """Return whether an outcome is one of this request, given by this entry."""
        return (
            (outcome.name, outcome.number) == (story.name, story.number)
            and (outcome.ticket, outcome.content_hash) == (story.ticket, story.content_hash)
            and (outcome.at_ms, outcome.ended_index) == (self.now_ms, self.index)
        )

    def _end_of_themselves(self) -> None:
        """End what no record is about: past its deadline, or of a deleted model version."""
        for number, outcome in list(self._given.items()):
            story = self.open.get(number)
            if story is None:
                continue  # it is admitted by this very entry
            if outcome.kind is OutcomeKind.EXPIRED:
                self._expire(story)
                if number in self._late:
                    continue
            elif outcome.code == "unknown_model" and story.key[:2] in self.deleting:
                if self.batches.is_assigned(story):
                    self._complain(f"request {number} is ended by a deletion, though it runs")
            else:
                continue
            self.end(number, early=True)

    def _find_late(self, entry: r.Entry, effects: Sequence[e.Effect]) -> None:
        """Note whom a Seal or an Assign may have found late, rather than time before it.

        What stands between tells which: whether an answer takes it for ended.
        """
        self._late = {}
        shed = {number for each in effects if isinstance(each, e.Shed) for number in each.numbers}
        for number in [number for record in entry.records for number in self._named(record)]:
            given = self._given.get(number)
            is_expired = given is not None and given.kind is OutcomeKind.EXPIRED
            if is_expired and number in self.open and number not in shed:
                self._late[number] = None

    def _named(self, record: r.Record) -> Sequence[int]:
        """Return whom a record would end that are past their deadline."""
        if isinstance(record, r.Seal):
            return record.numbers
        group = self.batches.groups.get(record.batch) if isinstance(record, r.Assign) else None
        return [] if group is None else list(group.open)

    def _end_late(self, *numbers: int) -> None:
        """End those that are past their deadline by now."""
        for number in numbers:
            if number in self._late:
                del self._late[number]
                self.end(number, early=True)

    def _expire(self, story: Story) -> None:
        """Judge an outcome `expired`: neither before the deadline, nor long after."""
        if not 0 < story.deadline_ms <= self.now_ms:
            self._complain(
                f"request {story.number} expires at {self.now_ms}, its deadline is "
                f"{story.deadline_ms}"
            )
        self.promptness.expired(story, self.now_ms, self.policy)

    def given(self, number: int) -> Outcome | None:
        """Return the outcome that this entry gives a request and no record has answered for."""
        return self._given.get(number)

    def end(self, number: int, *, early: bool = False) -> None:
        """Let a request have the outcome that this entry gave it."""
        story, outcome = self.open.pop(number), self._given.pop(number)
        story.ended = outcome
        self.totals[_COUNTED[outcome.kind]] += 1
        self._counts[_COUNTED[outcome.kind]] += 1
        if not self._is_true(story, outcome):
            self._complain(f"{story} is ended with {outcome}")
        if outcome.kind is OutcomeKind.OK and outcome.is_kept:
            wanted = self._answer(story.payload)
            if outcome.result != wanted:
                self._complain(f"request {number} has the result {outcome.result!r:.80}")
        self.waiting.end(story)
        if early and outcome.run is not None:
            self._complain(f"request {number} is {outcome.kind.name} by a run")
        if story.batch:
            self.batches.left(story, early=early)

    # Records.

    def _follow(self, record: r.Record, reply: e.Reply | e.Verdicts) -> None:
        is_done = reply.verdict is Verdict.OK
        match record:
            case r.Admit():
                assert isinstance(reply, e.Verdicts)
                self._admit(record, reply)
            case r.Cancel():
                assert isinstance(reply, e.Verdicts)
                self._cancel(record, reply)
            case r.Acknowledge() | r.Forget():
                assert isinstance(reply, e.Verdicts)
                self._acknowledge(record, reply)
            case r.PutModel() if is_done:
                self.models[record.model.name, record.model.version] = record.model
            case r.DeleteModel() if is_done:
                self.deleting[record.name, record.version] = None
            case r.PutPolicy() if is_done:
                self.policy = record.policy
            case _:
                assert isinstance(reply, e.Reply)
                self._end_late(*self._named(record))
                self.batches.follow(record, reply)

    def _admit(self, record: r.Admit, reply: e.Verdicts) -> None:
        if record.first <= self._last_number:
            self._complain(f"entry {self.index} admits {record.first} after {self._last_number}")
        self._last_number = record.first + len(record.request_id) - 1
        tickets = dict(reply.tickets)
        for place, verdict in enumerate(map(Verdict, reply.verdicts)):
            tenant = record.tenants[record.tenant[place]]
            name = f"{tenant}\0{record.request_id[place]}"
            self.totals["submitted"] += 1
            self._counts["submitted"] += 1
            if verdict is Verdict.OK:
                self._take(record, place, name)
            elif verdict in _KNOWN:
                self._meet(record, place, name, verdict, tickets.get(place))
            else:
                self.totals["refused"] += 1
                self._counts["refused"] += 1
                self._refuse(record, place, name, verdict)

    def _take(self, record: r.Admit, place: int, name: str) -> None:
        """Judge that a request is taken in."""
        key = record.keys[record.key[place]]
        model = self.models.get(key[:2])
        number = record.first + place
        known = self.names.get(name)
        if known is not None and self._must_be_known(known):
            self._complain(f"{name!r} is admitted as {number}, and was as {known.number}")
        if model is None or key[:2] in self.deleting:
            self._complain(f"request {number} is admitted for no model version")
            return
        timeout_ms = record.timeout_ms[place] or model.default_timeout_ms
        size = len(record.payload[place]) + len(record.parameters[place])
        story = Story(
            number,
            name,
            key,
            record.rows[place],
            size,
            record.priority[place],
            self.now_ms,
            self.now_ms + timeout_ms if timeout_ms else 0,
            self.index,
            record.content_hash[place],
            record.payload[place],
            record.parameters[place],
            record.traceparent[place],
        )
        if why := why_never(story, model, self.policy):
            self._complain(f"request {number} is admitted, of {why}")
        self.stories[number] = self.open[number] = self.names[name] = self.tickets[
            name, self.index
        ] = story
        self.totals["admitted"] += 1
        self._counts["admitted"] += 1
        self.waiting.add(story, self.policy, model, [self.open[each] for each in self._late])

    def _meet(
        self, record: r.Admit, place: int, name: str, verdict: Verdict, ticket: int | None
    ) -> None:
        """Judge what a known id is answered."""
        known = self.names.get(name)
        self._counts["duplicates"] += 1
        if known is None:
            self._complain(f"{name!r} is answered {verdict.name}, and never came")
            return
        if verdict is not Verdict.KNOWN:
            self._end_late(known.number)
        is_same = known.content_hash in (b"", record.content_hash[place])
        is_open = known.ended is None
        fits = {
            Verdict.KNOWN: is_open and is_same and ticket == known.ticket,
            Verdict.ENDED: not is_open and is_same and ticket == known.ticket,
            Verdict.REQUEST_ID_CONFLICT: not is_same,
            Verdict.OUTCOME_FORGOTTEN: not known.must_be_whole(self.policy, self.now_ms)
            and not is_open,
        }
        if not fits[verdict]:
            self._complain(f"{name!r} is answered {verdict.name}, ticket {ticket}, of {known}")
        if verdict not in (Verdict.KNOWN, Verdict.ENDED):
            self.totals["refused"] += 1

    def _refuse(self, record: r.Admit, place: int, name: str, verdict: Verdict) -> None:
        """Judge that a request is not taken in."""
        known = self.names.get(name)
        if self._must_be_known(known):
            self._complain(f"{name!r} is answered {verdict.name}, and is known")
        key = record.keys[record.key[place]]
        is_there = key[:2] in self.models and key[:2] not in self.deleting
        if is_there == (verdict is Verdict.UNKNOWN_MODEL):
            self._complain(f"{name!r} is answered {verdict.name}, its model is there: {is_there}")
        self._counts[f"refused_{verdict.slug}"] += 1

    def _must_be_known(self, story: Story | None) -> bool:
        return story is not None and story.must_be_known(self.policy, self.now_ms)

    def _cancel(self, record: r.Cancel, reply: e.Verdicts) -> None:
        for tenant, request_id, said in zip(
            record.tenant, record.request_id, reply.verdicts, strict=True
        ):
            name, verdict = f"{tenant}\0{request_id}", Verdict(said)
            known = self.names.get(name)
            is_known = self._must_be_known(known)
            if known is not None and verdict is Verdict.ENDED:
                self._end_late(known.number)
            if verdict is Verdict.OK:
                outcome = self._given.get(known.number) if known is not None else None
                if known is None or outcome is None or outcome.kind is not OutcomeKind.CANCELLED:
                    self._complain(f"{name!r} is cancelled, and has {outcome}")
                else:
                    self.end(known.number, early=True)
            elif is_known and verdict not in (Verdict.ENDED, Verdict.OUTCOME_FORGOTTEN):
                self._complain(f"the cancel of {name!r} is answered {verdict.name}")
            elif known is not None and known.ended is None:
                self._complain(f"{name!r} is not cancelled, but {verdict.name}")
            elif verdict is Verdict.UNKNOWN_REQUEST:
                self.names[name] = self.tickets[name, 0] = Story(
                    0,
                    name,
                    ended=Outcome(
                        *(name, 0, 0, b"", OutcomeKind.CANCELLED, "", "", b""),
                        *(self.now_ms, self.index, None, True),
                    ),
                )
                self._counts["cancelled_before"] += 1

    def _acknowledge(self, record: r.Acknowledge | r.Forget, reply: e.Verdicts) -> None:
        for tenant, request_id, verdict in zip(
            record.tenant, record.request_id, reply.verdicts, strict=True
        ):
            known = self.names.get(f"{tenant}\0{request_id}")
            if verdict == Verdict.OK:
                self._end_late(known.number if known is not None else 0)
                if known is None or known.ended is None:
                    self._complain(f"{request_id!r} is acknowledged, and has no outcome")
                else:
                    known.is_acknowledged = True
                    self._counts["acknowledged"] += 1
            elif verdict == Verdict.UNKNOWN_REQUEST and self._must_be_known(known):
                self._complain(f"{request_id!r} is not known to an acknowledgement")

    def _finish_deleted(self) -> None:
        """Let deleted model versions go of which nothing is left."""
        for model_id in list(self.deleting):
            if not self.waiting.of(model_id)[0] and not self.batches.of(model_id):
                del self.deleting[model_id]
                del self.models[model_id]
