"""The state beside a simple model: a dict of what each id should be, and a set for each batch."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from coordinator.core.snapshot import Capture, restore
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran, Release
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import KEY, Core

IDS = st.sampled_from([f"r{n}" for n in range(12)])
EXECUTORS = st.sampled_from(["gpu-1", "gpu-2"])
TIMEOUTS = st.sampled_from([0, 50, 200])
ATTEMPTS_MAX = 2


class Machine(RuleBasedStateMachine):
    """Requests are in a window, in a batch, or have an outcome; nothing else is known of them."""

    def __init__(self) -> None:
        super().__init__()
        model = Model("m", "1", max_batch_size=4, attempts_max=ATTEMPTS_MAX, backoff_initial_ms=0)
        policy = Policy(requests_waiting_max=8, outcome_retention_ms=1000, dedupe_retention_ms=3000)
        self.core = Core(model, policy, executors=("gpu-1", "gpu-2"), slots=2)
        self.outcomes: dict[str, tuple[str, int]] = {}
        self.open: dict[str, tuple[int, int]] = {}  # number, deadline
        self.batches: dict[int, list[str]] = {}
        self.placed: dict[int, tuple[str, int]] = {}
        self.failed: dict[int, int] = {}
        self.lapsed: dict[str, int] = {"gpu-1": 0, "gpu-2": 0}

    def _pass_time(self) -> None:
        """Do what the next entry will do of itself."""
        now_ms = self.core.at_ms
        for request_id, (_, deadline_ms) in list(self.open.items()):
            if deadline_ms and deadline_ms <= now_ms:
                self._end(request_id, "expired")
        for request_id, (_, at_ms) in list(self.outcomes.items()):
            if at_ms + 3000 <= now_ms:
                del self.outcomes[request_id]

    def _end(self, request_id: str, outcome: str) -> None:
        del self.open[request_id]
        self.outcomes[request_id] = (outcome, self.core.at_ms)
        for number, members in list(self.batches.items()):
            if request_id in members:
                members.remove(request_id)
                if not members and number not in self.placed:
                    del self.batches[number]

    def _waiting(self) -> list[str]:
        held = {each for members in self.batches.values() for each in members}
        return [each for each in self.open if each not in held]

    @rule(request_id=IDS, timeout_ms=TIMEOUTS)
    def admit(self, request_id: str, timeout_ms: int) -> None:
        """Take one in, unless it is known, or there are too many."""
        self._pass_time()
        number = self.core.state.next_request
        answer = self.core.admit(request_id, timeout_ms=timeout_ms)
        if request_id in self.open:
            assert answer == "KNOWN"
        elif request_id in self.outcomes:
            assert answer in ("ENDED", "OUTCOME_FORGOTTEN")
        elif len(self.open) >= 8:
            assert answer == "OVERLOADED"
        else:
            assert answer == "OK"
            self.open[request_id] = (number, self.core.at_ms + timeout_ms if timeout_ms else 0)

    @rule(request_id=IDS)
    def cancel(self, request_id: str) -> None:
        """End one, or remember that."""
        self._pass_time()
        answer = self.core.one(r.Cancel(("t",), (request_id,)))
        if request_id in self.open:
            assert answer == "OK"
            self._end(request_id, "cancelled")
        elif request_id not in self.outcomes:
            assert answer == "UNKNOWN_REQUEST"
            self.outcomes[request_id] = ("cancelled", self.core.at_ms)

    @precondition(lambda self: bool(self._waiting()))
    @rule(count=st.integers(1, 6))
    def seal(self, count: int) -> None:
        """Seal the first that wait."""
        self._pass_time()
        chosen = self._waiting()[:count]
        batch = self.core.state.next_batch
        numbers = tuple(self.open[each][0] for each in chosen)
        reply = self.core.one(r.Seal(batch, KEY, Release.AGE, numbers))
        assert reply == ("VOID" if count > 4 and len(chosen) > 4 else "OK" if chosen else "EMPTY")
        if reply == "OK":
            self.batches[batch] = chosen
            self.failed[batch] = 0

    @precondition(lambda self: bool(set(self.batches) - set(self.placed)))
    @rule(executor=EXECUTORS)
    def assign(self, executor: str) -> None:
        """Place the first that waits."""
        self._pass_time()
        free = sorted(set(self.batches) - set(self.placed))
        if not free:
            self.core.do(r.Advance())
            return
        number = free[0]
        held = sum(one == executor for one, _ in self.placed.values()) + self.lapsed[executor]
        suspended = self.core.state.executors[executor].is_suspended
        answer = self.core.assign(number, executor)
        may = held < 2 and self.failed[number] < ATTEMPTS_MAX and not suspended
        assert answer == ("OK" if may else "VOID")
        if may:
            self.placed[number] = (executor, self.core.state.index)

    @precondition(lambda self: bool(self.placed))
    @rule(kind=st.integers(0, 1))
    def complete(self, kind: int) -> None:
        """Let the first that runs be reported."""
        self._pass_time()
        number = min(self.placed)
        report = self.core.report(number, kind=kind)
        assert report.fence == self.placed[number][1]
        assert self.core.one(report) == "OK"
        del self.placed[number]
        for request_id in list(self.batches[number]):
            self._end(request_id, "failed bad" if kind else "ok")
        self.batches.pop(number, None)
        assert self.core.one(report) == "STALE_FENCE"

    @precondition(lambda self: bool(self.placed))
    @rule(ran=st.booleans(), stopped=st.booleans())
    def lapse(self, ran: bool, stopped: bool) -> None:
        """Take the first that runs back."""
        self._pass_time()
        number = min(self.placed)
        reason = LapseReason.FAILED if ran else LapseReason.DRAINED
        answer = self.core.lapse(number, reason, Ran.YES if ran else Ran.NO, stopped=stopped)
        assert answer == "OK"
        executor, _ = self.placed.pop(number)
        self.failed[number] += ran
        self.lapsed[executor] += not stopped
        if not self.batches[number]:
            del self.batches[number]

    @precondition(lambda self: any(self.lapsed.values()))
    @rule(executor=EXECUTORS)
    def free(self, executor: str) -> None:
        """Let an executor confirm all that lapsed."""
        self._pass_time()
        live = self.core.state.executors[executor]
        held = [each for each in live.held if each.is_lapsed]
        assert len(held) == self.lapsed[executor]
        fences = tuple(each.fence for each in held)
        batches = tuple(each.batch for each in held)
        self.core.one(r.Free(executor, live.incarnation, batches, fences))
        self.core.one(r.Probe(executor, live.incarnation, True))
        self.lapsed[executor] = 0

    @rule(ms=st.sampled_from([1, 60, 500, 3000]))
    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.core.at_ms += ms
        self._pass_time()
        self.core.do(r.Advance())

    @rule()
    def restart(self) -> None:
        """Go on with what a snapshot holds."""
        capture = Capture(self.core.state)
        self.core.state = restore(capture.chunks())

    def teardown(self) -> None:
        """Compare everything."""
        self._pass_time()
        self.core.do(r.Advance())
        for number in range(12):
            request_id = f"r{number}"
            found = self.core.outcome(request_id)
            if request_id in self.open:
                assert found == "open"
            elif request_id in self.outcomes:
                assert found == self.outcomes[request_id][0]
            else:
                assert found == "unknown"
        assert set(self.core.state.batches) == set(self.batches)


def test_state_is_what_a_simple_model_says() -> None:
    """Whatever is done, in whatever order, over snapshots in between."""
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
