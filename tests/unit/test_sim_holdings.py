"""What a simulated executor holds: as careful as a real one has to be."""

from __future__ import annotations

from chaos.suites.scheduler_holdings import Holdings, Stage
from chaos.suites.scheduler_requests import Kind, answer, kind_of, payload
from coordinator.feed_messages import Assignment, Changes, Current, Shed, Slot, Stop
from raftbatch.kinds import LapseReason


def given(batch: int, fence: int, *numbers: int) -> Assignment:
    """Return an assignment of requests."""
    count = len(numbers)
    payloads = tuple([b"%d" % number for number in numbers])
    return Assignment(
        batch,
        1,
        fence,
        ("m", "1", "a"),
        numbers,
        (1,) * count,
        payloads,
        (b"",) * count,
        ("",) * count,
        (0,) * count,
    )


def changes(
    index: int,
    *start: Assignment,
    stop: tuple[Stop, ...] = (),
    shed: tuple[Shed, ...] = (),
    finished: tuple[Slot, ...] = (),
) -> Changes:
    """Return a message."""
    return Changes(index, 0, start, stop, shed, finished, is_draining=False, is_suspended=False)


def test_executor_runs_no_more_than_it_has_instances_in_the_order_in_which_they_came() -> None:
    holdings = Holdings(instances=1)
    holdings.take(changes(5, given(1, 5, 1), given(2, 5, 2)))
    first = holdings.next()
    assert first is not None
    assert first.name == (1, 5)
    assert holdings.next() is None
    first.stage = Stage.REPORTING
    second = holdings.next()
    assert second is not None
    assert second.name == (2, 5)
    assert [(each.batch, each.is_running) for each in holdings.listed()] == [(1, False), (2, True)]


def test_what_is_told_twice_is_held_once_and_not_begun_anew() -> None:
    holdings = Holdings(instances=2)
    holdings.take(changes(5, given(1, 5, 1)))
    assert holdings.next() is not None
    holdings.take(changes(6, given(1, 5, 1)))
    assert holdings.next() is None
    assert len(holdings.held) == 1


def test_row_that_was_shed_before_does_not_run() -> None:
    holdings = Holdings(instances=1)
    holdings.take(changes(5, given(1, 5, 1, 2, 3)))
    holdings.take(changes(6, shed=(Shed(1, 5, (2,)), Shed(9, 9, (1,)))))
    held = holdings.next()
    assert held is not None
    assert held.rows == {1: b"1", 3: b"3"}


def test_what_runs_is_held_until_it_is_dead() -> None:
    holdings = Holdings(instances=1)
    holdings.take(changes(5, given(1, 5, 1), given(2, 5, 2)))
    held = holdings.next()
    assert held is not None
    stop = Stop(1, 5, LapseReason.TIMED_OUT)
    assert holdings.take(changes(7, stop=(stop,))) == [(held, LapseReason.TIMED_OUT)]
    assert held.stage is Stage.STOPPING
    assert [each.batch for each in holdings.listed()] == [1, 2]
    assert holdings.take(changes(8, stop=(stop,))) == [], "it is being killed already"
    assert holdings.next() is None, "its child still runs"
    holdings.gone(held)
    assert [each.batch for each in holdings.listed()] == [2]
    assert holdings.next() is not None


def test_what_waits_or_is_reported_goes_at_once_when_the_feed_says_so() -> None:
    holdings = Holdings(instances=1)
    holdings.take(changes(5, given(1, 5, 1), given(2, 5, 2)))
    held = holdings.next()
    assert held is not None
    held.stage = Stage.REPORTING
    ended = holdings.take(changes(9, stop=(Stop(2, 5, None),), finished=(Slot(1, 5),)))
    assert [each.name for each, _ in ended] == [(1, 5), (2, 5)]
    assert holdings.listed() == ()


def test_another_fence_is_another_assignment() -> None:
    holdings = Holdings(instances=1)
    holdings.take(changes(5, given(1, 5, 1)))
    holdings.take(changes(9, given(1, 9, 1), stop=(Stop(1, 5, LapseReason.REFUSED),)))
    assert [each[:2] for each in holdings.listed()] == [(1, 9)]


def test_first_message_of_a_tail_keeps_drops_and_starts() -> None:
    holdings = Holdings(instances=1)
    holdings.take(changes(5, given(1, 5, 1), given(2, 5, 2)))
    current = Current(
        4,
        0,
        (given(3, 4, 3),),
        (Slot(1, 5),),
        (),
        (Slot(2, 5), Slot(7, 7)),
        is_draining=True,
        is_suspended=True,
    )
    assert [each.name for each, _ in holdings.take(current)] == [(2, 5)]
    assert list(holdings.held) == [(1, 5), (3, 4)]
    assert holdings.seen == 5, "what was seen once is not unseen"
    assert holdings.is_draining
    assert holdings.is_suspended


def test_result_is_a_pure_function_of_the_payload() -> None:
    well = payload(Kind.WELL, "1", 40)
    assert len(well) == 40
    assert answer(well) == answer(bytes(well))
    assert answer(well) != answer(payload(Kind.WELL, "2", 40))
    for kind in Kind:
        assert kind_of(payload(kind, "1", 3)) is kind
        assert (answer(payload(kind, "1", 3)) is None) == (kind is not Kind.WELL)
