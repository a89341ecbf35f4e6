"""What a tail says when it is read: what differs from what it said before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.feed_messages import Current, Shed, Slot, Stop
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Model, Policy
from tests.unit.feed_scene import Fed


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_assignment_is_told_with_all_that_it_takes_to_run_it(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    assert fed.first == Current(fed.state.index, 1000, (), (), (), (), False, False)
    assert fed.read() is None
    batch = fed.start("a", "b", rows=2, timeout_ms=500, size=3)
    message = fed.read()
    assert message is not None
    (started,) = message.start
    assert (message.index, message.at_ms) == (fed.state.index, 1000)
    assert (started.batch, started.attempt, started.fence) == (batch, 1, fed.fence(batch))
    assert started.key == ("m", "1", "a")
    assert started.numbers == (1, 2)
    assert started.rows == (2, 2)
    assert started.payloads == (bytes(3), bytes(3))
    assert started.payloads[0] is fed.state.requests[1].payload  # not copied
    assert (started.parameters, started.traceparents) == ((b"", b""), ("", ""))
    assert started.deadlines_ms == (1500, 1500)
    assert fed.read() is None


def test_many_entries_are_one_message_made_of_the_state(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    one = fed.start("a")
    two = fed.start("b", "c")
    fed.one(fed.report(one))
    fed.one(r.Cancel(("t",), ("b",)))
    message = fed.read()
    assert message is not None
    # What came and went between two reads is not told.
    assert [each.batch for each in message.start] == [two]
    assert message.start[0].numbers == (fed.number("c"),)
    assert (message.stop, message.shed, message.finished) == ((), (), ())


def test_report_that_is_complete_is_told_as_finished(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    batch = fed.start("a")
    fed.read()
    slot = Slot(batch, fed.fence(batch))
    fed.one(fed.report(batch))
    message = fed.read()
    assert message is not None
    assert (message.finished, message.stop) == ((slot,), ())


def test_parts_of_a_report_are_told_as_they_land(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    batch = fed.start("a", "b", "c")
    fed.read()
    slot = Slot(batch, fed.fence(batch))
    fed.one(fed.report(batch, numbers=(2,), last=False))
    message = fed.read()
    assert message is not None
    assert (message.shed, message.finished) == ((Shed(*slot, (2,)),), ())
    fed.one(fed.report(batch, numbers=(1, 3), last=True))
    message = fed.read()
    assert message is not None
    assert (message.shed, message.finished) == ((), (slot,))


def test_cancelled_and_expired_rows_are_shed(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    assert fed.admit("a", "b") == "OK OK"
    assert fed.admit("c", timeout_ms=100) == "OK"
    assert fed.seal("a", "b", "c") == "OK"
    assert fed.assign() == "OK"
    slot = Slot(1, fed.fence(1))
    fed.read()
    fed.one(r.Cancel(("t",), ("b",)))
    fed.wait(100)
    message = fed.read()
    assert message is not None
    assert message.shed == (Shed(*slot, (2, 3)),)
    fed.one(r.Cancel(("t",), ("a",)))
    message = fed.read()
    assert message is not None
    # It still takes its slot, with no row left: the executor reports that there is nothing.
    assert message.shed == (Shed(*slot, (1,)),)
    assert fed.one(fed.report(1, numbers=())) == "OK"
    message = fed.read()
    assert message is not None
    assert message.finished == (slot,)


@pytest.mark.parametrize("stopped", [True, False])
def test_lapse_is_told_with_its_reason_once(loop: VirtualLoop, stopped: bool) -> None:
    fed = Fed(loop)
    batch = fed.start("a")
    fed.read()
    fence = fed.fence(batch)
    fed.lapse(batch, LapseReason.TIMED_OUT, Ran.YES, stopped=stopped)
    message = fed.read()
    assert message is not None
    assert message.stop == (Stop(batch, fence, LapseReason.TIMED_OUT),)
    assert fed.read() is None
    fed.one(r.Free("gpu-1", fed.incarnation, (batch,), (fence,)))
    assert fed.read() is None


def test_batch_that_lapsed_and_was_assigned_again_between_two_reads(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    batch = fed.start("a")
    fed.read()
    first = fed.fence(batch)
    fed.lapse(batch, LapseReason.DRAINED, Ran.NO, stopped=False)
    assert fed.assign(batch) == "OK"
    second = fed.fence(batch)
    message = fed.read()
    assert message is not None
    assert message.stop == (Stop(batch, first, LapseReason.DRAINED),)
    assert [(each.batch, each.fence, each.attempt) for each in message.start] == [
        (batch, second, 2)
    ]


def test_what_was_never_heard_of_is_stopped_too_since_its_slot_returns_only_so(
    loop: VirtualLoop,
) -> None:
    fed = Fed(loop)
    batch = fed.start("a")
    fence = fed.fence(batch)
    fed.lapse(batch, LapseReason.TIMED_OUT, Ran.NO, stopped=False)
    message = fed.read()
    assert message is not None
    assert (message.start, message.stop) == ((), (Stop(batch, fence, None),))
    # Where nothing takes a slot, there is nothing to say.
    assert fed.assign(batch) == "OK"
    fed.lapse(batch, LapseReason.REFUSED, Ran.NO, stopped=True)
    assert fed.read() is None


def test_draining_and_suspension_are_told(loop: VirtualLoop) -> None:
    fed = Fed(loop, policy=Policy(executor_failures_max=1))
    fed.one(r.Drain("gpu-1", fed.incarnation, True))
    message = fed.read()
    assert message is not None
    assert (message.is_draining, message.is_suspended) == (True, False)
    fed.one(r.Drain("gpu-1", fed.incarnation, False))
    fed.start("a")
    fed.lapse()
    message = fed.read()
    assert message is not None
    assert (message.is_draining, message.is_suspended) == (False, True)
    assert message.start == ()
    fed.one(r.Ready("gpu-1", fed.incarnation, (("m", "1"),)))
    assert fed.read() is None  # nothing that it does not know


def test_current_set_is_held_against_what_the_executor_says(loop: VirtualLoop) -> None:
    fed = Fed(loop, model=Model("m", "1", attempts_max=5))
    kept = fed.start("a", "b")
    done = fed.start("c")
    lapsed = fed.start("d")
    unheard = fed.start("e")
    fences = {each: fed.fence(each) for each in (kept, done, lapsed, unheard)}
    fed.one(fed.report(done))
    fed.lapse(lapsed, LapseReason.TIMED_OUT, Ran.NO, stopped=False)
    fed.one(r.Cancel(("t",), ("b",)))
    new = fed.start("f")
    held = [(each, fences[each]) for each in (kept, done)]
    _, first = fed.open(*held, (kept, fences[kept] - 1), (77, 3), held[0])
    assert first.keep == (Slot(kept, fences[kept]),)
    assert first.shed == (Shed(kept, fences[kept], (2,)),)
    assert [each.batch for each in first.start] == [unheard, new]
    # `lapsed` waits for a confirmation, though the executor says nothing of it.
    assert first.drop == (
        Slot(done, fences[done]),
        Slot(kept, fences[kept] - 1),
        Slot(77, 3),
        Slot(lapsed, fences[lapsed]),
    )


def test_kept_assignment_goes_on_from_there(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    batch = fed.start("a", "b")
    fence = fed.fence(batch)
    fed.tail, _ = fed.open((batch, fence), seen_index=fence)
    assert fed.read() is None
    fed.one(r.Cancel(("t",), ("a",)))
    message = fed.read()
    assert message is not None
    assert message.shed == (Shed(batch, fence, (1,)),)


def test_after_a_snapshot_the_next_message_is_what_is_different(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    done, lapsed, shed, same = [fed.start(*ids) for ids in ("a", "b", ("c", "d"), "e")]
    fed.read()
    fences = {each: fed.fence(each) for each in (done, lapsed, shed)}
    fed.replica.listeners.remove(fed.feed)  # what happens now, this node sees by a snapshot
    fed.one(fed.report(done))
    fed.lapse(lapsed, LapseReason.TIMED_OUT, Ran.NO, stopped=False)
    fed.one(r.Cancel(("t",), ("c",)))
    new = fed.start("f")
    fed.replica.listeners.append(fed.feed)
    fed.install()
    message = fed.read()
    assert message is not None
    assert message.index == fed.state.index
    assert [each.batch for each in message.start] == [new]
    # That one is finished is not known any more: it is stopped, which comes to the same.
    assert message.stop == (Stop(done, fences[done], None), Stop(lapsed, fences[lapsed], None))
    assert message.shed == (Shed(shed, fences[shed], (3,)),)
    assert message.finished == ()
    assert same not in [each.batch for each in message.start]
    fed.install()
    assert fed.read() is None
