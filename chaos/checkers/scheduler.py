"""The scheduler's promises, held against every entry that any replica applies.

Each index of the log is judged once, when the first replica has applied it, by a
model of its own (`scheduler_model`) that knows the rules and none of the product's
code; what the others make of that index must be the same, to the byte. Runs are
known to `scheduler_runs`, what clients saw to `scheduler_history`.

A broken promise is noted, and ends the run after the event: raised within the
product, it would be taken for its own failure. What lives here: what replicas say,
and the judgement at the end. What must never live here: how nodes are run. Called
by: `chaos.suites.scheduler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from chaos.checkers.scheduler_history import ClientHistory
from chaos.checkers.scheduler_model import Model
from chaos.checkers.scheduler_runs import RunHistory
from chaos.checkers.scheduler_states import LiveExecutor, differs, still_open
from coordinator.core.effects import Applied
from coordinator.core.invariants import check
from coordinator.core.snapshot import Capture
from coordinator.core.state import State
from coordinator.core.values import Outcome
from raftbatch.errors import Invariant
from raftbatch.ids import NodeId
from raftbatch.records import Entry

_CLOCK_SETTLES_MS = 2_000
"""After a heal, entries may still come that were stamped before it."""

_CLOCK_SLACK_MS = 500
"""By how much log time may part from the time of the world once all is healed."""


class Watched(Protocol):
    """What the checker needs of a replica."""

    @property
    def state(self) -> State:
        """Its state: another object after a snapshot was installed."""


@dataclass(frozen=True, slots=True)
class Known:
    """What an index of the log is, and what it did, wherever it is applied.

    Attributes:
        place: how many entries come before it.
        digest: rolling hash of all that was done so far; empty: none but a replica that was
            flipped has applied it yet.
    """

    place: int
    index: int
    term: int
    entry: Entry
    applied: Applied
    digest: bytes


class SchedulerChecker:
    """See the module's docstring.

    Args:
        answer: the pure function that every model of the run computes: the result for
            a payload; None: that payload fails wherever it runs.
        digest_every: how many indexes lie between two at which whole states are compared.
        check_every: how many entries of one replica lie between two looks at its invariants.
        late_ms_max: by how much log time an outcome `expired` may follow its deadline, once
            all is healed, beside what those take that were due with it.
        real_ms: the world's true time, which no node knows; None: log time is not held
            against it.

    Attributes:
        violation: the first broken promise.
        counts: what was seen; goes into the last line of a run.
        history: what clients saw.
        runs: what executors ran.
        model: what was committed.
        chain: every index that has been applied, in order.
    """

    def __init__(
        self,
        answer: Callable[[bytes], bytes | None],
        *,
        digest_every: int = 64,
        check_every: int = 32,
        late_ms_max: int = 500,
        real_ms: Callable[[], int] | None = None,
    ) -> None:
        self.violation: str | None = None
        self.counts: Counter[str] = Counter()
        self.runs = RunHistory(self.complain, self.counts)
        self.model = Model(self.complain, self.counts, self.runs, answer, late_ms_max)
        self.history = ClientHistory(self.complain, self.counts, self.model)
        self.chain: list[Known] = []
        self.digest_every, self.check_every = digest_every, check_every
        self._known: dict[int, Known] = {}
        self._whole: dict[int, bytes] = {}
        self._watches: dict[NodeId, Watch] = {}
        self._real_ms = real_ms
        self._clock_from_ms: int | None = None
        self._ahead_ms: int | None = None

    def complain(self, promise: str) -> None:
        """Note a broken promise; the first ends the run."""
        if self.violation is None:
            self.violation = promise

    def begin(self, node: NodeId, replica: Watched) -> Watch:
        """Watch a replica, from before it has applied anything; for each life of a node."""
        watch = self._watches[node] = Watch(self, node, replica)
        self.counts["replicas"] += 1
        return watch

    def end(self, node: NodeId) -> None:
        """Forget the replica of a node that died: that is a fault, whatever was healed before."""
        self.model.promptness.healed_ms = self._clock_from_ms = self._ahead_ms = None
        watch = self._watches.pop(node, None)
        if watch is not None:
            watch.is_over = True

    def flipped(self, node: NodeId) -> None:
        """Take in that a replica's digest was flipped: as long as it lives it differs."""
        self._watches[node].is_flipped = True

    def healed(self) -> None:
        """Take in that no fault is left from now on: deadlines are to be answered in time.

        Again after `struck`: what clocks tell of the time between is no elapsed time.
        """
        self.model.promptness.healed_ms = self.model.now_ms
        self._ahead_ms = None
        if self._real_ms is not None:
            self._clock_from_ms = self._real_ms() + _CLOCK_SETTLES_MS

    def struck(self) -> None:
        """Take in that something fails again: nothing is judged by time until all is healed."""
        self.model.promptness.healed_ms = self._clock_from_ms = None

    # What replicas say.

    def known(self, index: int) -> Known | None:
        """Return what an index did; None: no replica has applied it."""
        return self._known.get(index)

    def extend(
        self, index: int, term: int, entry: Entry, applied: Applied, state: State, digest: bytes
    ) -> Known:
        """Take in an index that no replica had applied, and judge it."""
        if self.chain and index <= self.chain[-1].index:
            self.complain(f"index {index} is applied where the log has none")
        known = Known(len(self.chain), index, term, entry, applied, digest)
        self.chain.append(known)
        self._known[index] = known
        if self.violation is None:
            self.model.follow(index, term, entry, applied, lambda name: _outcome(state, name))
            self._look_at_the_clock()
        return known

    def same_digest(self, node: NodeId, known: Known, digest: bytes) -> None:
        """Compare a replica's digest at an index with another's."""
        if not known.digest:
            self._known[known.index] = replace(known, digest=digest)
        elif known.digest != digest:
            self.complain(f"{node}'s digest at {known.index} is another")

    def _look_at_the_clock(self) -> None:
        """Once all is healed, log time passes as the world's does."""
        if self._real_ms is None or self._clock_from_ms is None:
            return
        real_ms = self._real_ms()
        if real_ms < self._clock_from_ms:
            return
        ahead_ms = self.model.now_ms - real_ms
        if self._ahead_ms is None:
            self._ahead_ms = ahead_ms
        parted_ms = ahead_ms - self._ahead_ms
        self.counts["clock_looks"] += 1
        if abs(parted_ms) > _CLOCK_SLACK_MS:
            self.complain(f"log time has parted from the world's by {parted_ms} ms since the heal")

    def same_state(self, node: NodeId, index: int, state: State) -> None:
        """Compare a whole state with what another replica had at that index."""
        digest = _digest(state)
        if self._whole.setdefault(index, digest) != digest:
            self.complain(f"{node}'s state at {index} is another")
        self.counts["whole_states"] += 1

    # The end.

    def settled(
        self, states: Mapping[NodeId, State], executors: Mapping[str, LiveExecutor]
    ) -> str | None:
        """Return what is still open; None: nothing, and all is as it must be then.

        To be asked again and again in the liveness phase. Once it says None, replicas are
        equal, every request that was admitted has its outcome, and every slot is where both
        the state and the executor say.
        """
        found = still_open(self.model, states, executors)
        if found is not None:
            return found
        index = self.chain[-1].index if self.chain else 0
        for node, state in states.items():
            if state.index != index:
                return f"{node} has applied {state.index} of {index}"
        for node, state in states.items():
            self.look(node, state)
            self.same_state(node, index, state)
        self.counts["settled"] += 1
        return None

    def look(self, node: NodeId, state: State) -> None:
        """Hold a state that is as new as the model against it, and against its invariants."""
        try:
            check(state)
        except (Invariant, LookupError) as error:  # what is missing cannot be looked at either
            self.complain(f"{node} at {state.index}: {error!r}")
            return
        if state.index == self.model.index and (found := differs(self.model, state)):
            self.complain(f"{node} at {state.index}: {found}")
        self.counts["looks"] += 1

    def judge(self) -> None:
        """Judge what clients and executors saw, once nothing is under way any more."""
        self.history.judge()


class Watch:
    """One of a replica's listeners, its last: compares what it does with what others did.

    Args:
        checker: what it is a part of.
        node: whose replica.
        replica: looked at after each entry.

    Attributes:
        is_over: whether its node is dead: it must apply nothing any more.
        is_flipped: whether its digest was flipped: it is no other's any more.
    """

    def __init__(self, checker: SchedulerChecker, node: NodeId, replica: Watched) -> None:
        self.is_over = self.is_flipped = False
        self._checker = checker
        self._node = node
        self._replica = replica
        self._place = 0
        self._entries = 0

    def applied(self, index: int, term: int, entry: Entry, applied: Applied) -> None:
        """Judge an entry that this replica has just applied."""
        checker, node, state = self._checker, self._node, self._replica.state
        if self.is_over:
            checker.complain(f"{node} is dead, and applies {index}")
        if state.index != index:
            checker.complain(f"{node} applies {index}, and its state is at {state.index}")
        known = checker.known(index)
        if known is None:
            digest = b"" if self.is_flipped else state.digest
            known = checker.extend(index, term, entry, applied, state, digest)
        elif (term, entry, applied) != (known.term, known.entry, known.applied):
            checker.complain(
                f"{node} applies another entry {index}, or otherwise: {term} {entry} {applied} "
                f"is not {known}"
            )
        if known.place != self._place:
            checker.complain(f"{node} applies {index}, the {known.place}th, as {self._place}th")
        self._place = known.place + 1
        self._entries += 1
        if not self.is_flipped:
            checker.same_digest(node, known, state.digest)
            if index % checker.digest_every == 0:
                checker.same_state(node, index, state)
        if self._entries % checker.check_every == 0:
            checker.look(node, state)

    def installed(self) -> None:
        """Judge the state of a snapshot that this replica now has."""
        checker, node, state = self._checker, self._node, self._replica.state
        known = checker.known(state.index)
        checker.counts["installs"] += 1
        if state.index == 0:
            self._place = 0
            return
        if known is None or known.digest != state.digest:
            checker.complain(f"{node} installs a snapshot at {state.index} of another state")
            return
        self._place = known.place + 1
        checker.look(node, state)
        if state.index % checker.digest_every == 0:
            checker.same_state(node, state.index, state)


def _outcome(state: State, name: str) -> Outcome | None:
    tenant, _, request_id = name.partition("\0")
    found = state.request(tenant, request_id)
    return found if isinstance(found, Outcome) else None


def _digest(state: State) -> bytes:
    capture = Capture(state)
    try:
        return capture.digest()
    finally:
        capture.release()
