"""Group commit: what waits for an entry, how it is merged, and who is told."""

from __future__ import annotations

import pytest

from coordinator.core.effects import Reply, Verdict, Verdicts
from coordinator.proposer import REQUEST_BYTES, Admission, Group, Inbox, Landed
from raftbatch import records as r
from raftbatch.codec import KEYS_MAX, check_record, decode_entry, encode_entry
from raftbatch.errors import InvalidRequest, NoLeader, NotLeader, Overloaded
from tests.unit.leader_scene import KEY, Asked, admission


def _add(inbox: Inbox, request_id: str, **fields: object) -> Asked:
    asked = Asked()
    one = admission(request_id, **fields)
    size = len(one.payload) + len(one.parameters)
    inbox.add_request(f"{one.tenant}\0{one.request_id}", one, size, asked)
    return asked


def _admit(group: Group) -> r.Admit:
    record = group.records[0]
    assert isinstance(record, r.Admit)
    return record


def test_requests_are_merged_into_columns_in_the_order_in_which_they_came() -> None:
    inbox = Inbox()
    other = ("m", "2", "b")
    _add(inbox, "a", priority=2, rows=3)
    _add(inbox, "b", key=other, tenant="u", timeout_ms=7, parameters=b"p")
    inbox.add_record(r.Cancel(("t",), ("x",)), 10, Asked())
    _add(inbox, "c", traceparent="00-1", content_hash=b"hash", payload=b"")
    group = inbox.take(5, 1 << 20)
    assert group.records == [
        r.Admit(
            5,
            (KEY, other),
            ("t", "u"),
            (0, 1, 0),
            (0, 1, 0),
            ("a", "b", "c"),
            (b"h", b"h", b"hash"),
            (3, 1, 1),
            (2, 1, 1),
            (0, 7, 0),
            (b"x" * 10, b"x" * 10, b""),
            (b"", b"p", b""),
            ("", "", "00-1"),
        ),
        r.Cancel(("t",), ("x",)),
    ]
    check_record(group.records[0])
    assert (inbox.items, inbox.size, inbox.admissions, inbox.uses) == (0, 0, 0, {})
    assert not inbox


def test_entry_holds_as_much_as_it_may_and_the_rest_waits_in_order() -> None:
    inbox = Inbox()
    for number in range(5):
        _add(inbox, f"{number}", payload=b"x" * 100)
    one = REQUEST_BYTES + 100 + len("t\x000") + len(KEY[2])
    first = inbox.take(1, 2 * one)
    assert _admit(first).request_id == ("0", "1")
    assert (inbox.items, inbox.size, inbox.admissions) == (3, 3 * one, 3)
    assert inbox.uses[None].counts() == inbox.uses["t"].counts() == (3, 3, 300)
    _add(inbox, "5", tenant="u")
    assert _admit(inbox.take(3, 2 * one + one - 1)).request_id == ("2", "3")
    assert _admit(inbox.take(5, one)).request_id == ("4",)
    assert list(inbox.uses) == [None, ("m", "1"), "u"]
    assert _admit(inbox.take(6, one)).request_id == ("5",)
    assert (inbox.size, inbox.uses) == (0, {})


def test_what_is_larger_than_an_entry_rides_alone() -> None:
    inbox = Inbox()
    _add(inbox, "small")
    _add(inbox, "large", payload=b"x" * 5000)
    inbox.add_record(r.Cancel(("t",), ("x",)), 5000, Asked())
    _add(inbox, "last")
    taken = [inbox.take(1, 1000) for _ in range(4)]
    assert [[type(each).__name__ for each in group.records] for group in taken] == [
        ["Admit"],
        ["Admit"],
        ["Cancel"],
        ["Admit"],
    ]
    assert [len(_admit(taken[place]).request_id) for place in (0, 1, 3)] == [1, 1, 1]
    assert not inbox.take(1, 1000).records


def test_entry_names_no_more_keys_or_tenants_than_can_be_read() -> None:
    inbox = Inbox()
    for number in range(KEYS_MAX + 3):
        _add(inbox, f"k{number}", key=("m", "1", f"{number}"))
    first, second = inbox.take(1, 1 << 20), inbox.take(1, 1 << 20)
    assert (len(_admit(first).keys), len(_admit(second).keys)) == (KEYS_MAX, 3)
    for number in range(KEYS_MAX + 3):
        _add(inbox, f"t{number}", tenant=f"{number}")
    first = inbox.take(1, 1 << 20)
    assert len(_admit(first).tenants) == KEYS_MAX
    assert decode_entry(encode_entry(r.Entry(1, 1, tuple(first.records)))).records


def test_second_request_of_an_id_is_kept_aside_until_the_first_has_landed() -> None:
    inbox = Inbox()
    _add(inbox, "a")
    _add(inbox, "a", payload=b"other")
    group = inbox.take(1, 1 << 20)
    assert _admit(group).request_id == ("a",)
    _add(inbox, "a", tenant="u")  # somebody else's
    _add(inbox, "a")
    assert inbox.has("t\0a")
    assert _admit(inbox.take(2, 1 << 20)).tenants == ("u",)
    assert inbox.items == 2
    freed = inbox.landed(group)
    assert [each.what for each in freed] == [
        admission("a", payload=b"other"),
        admission("a"),
    ]
    assert not inbox.has("t\0a")
    assert (inbox.items, inbox.size) == (0, 0)


def test_all_that_wait_are_told_when_nothing_will_become_of_it() -> None:
    inbox = Inbox()
    taken = _add(inbox, "a")
    group = inbox.take(1, 1 << 20)
    asked = [_add(inbox, "a"), _add(inbox, "b"), _add(inbox, "b"), _add(inbox, "c")]
    record = Asked()
    inbox.add_record(r.Cancel(("t",), ("x",)), 10, record)
    inbox.close(NotLeader("gone", leader="n2"))
    errors = [each.error for each in (*asked, record)]
    assert all(isinstance(each, NotLeader) and each.leader == "n2" for each in errors)
    assert len(set(map(id, errors))) == 5  # each has one of its own
    assert not taken.answers
    assert (inbox.items, inbox.size, bool(inbox)) == (0, 0, False)
    group.failed(Overloaded("full", retry_after_ms=3))
    assert taken.error.retry_after_ms == 3


def test_each_request_is_told_what_became_of_it() -> None:
    inbox = Inbox()
    asked = [_add(inbox, name) for name in "abcde"]
    group = inbox.take(1, 1 << 20)
    verdicts = bytes(
        [
            Verdict.OK,
            Verdict.KNOWN,
            Verdict.OVERLOADED,
            Verdict.INVALID_REQUEST,
            Verdict.ENDED,
        ]
    )
    group.landed(9, (Verdicts(verdicts, ((1, 4), (4, 6)), ((3, "no"),), 70),))
    assert [each.landed for each in asked] == [
        Landed(9, Verdict.OK, "", 9),
        Landed(9, Verdict.KNOWN, "", 4),
        Landed(9, Verdict.OVERLOADED, "", 0, 70),
        Landed(9, Verdict.INVALID_REQUEST, "no"),
        Landed(9, Verdict.ENDED, "", 6),
    ]


@pytest.mark.parametrize(
    "reply", [Verdicts(bytes([Verdict.VOID, Verdict.VOID])), Reply(Verdict.NOT_LEADER)]
)
def test_requests_of_an_admit_that_was_refused_as_a_whole_may_be_asked_again(
    reply: Reply | Verdicts,
) -> None:
    inbox = Inbox()
    asked = [_add(inbox, name) for name in "ab"]
    inbox.take(1, 1 << 20).landed(9, (reply,))
    assert all(isinstance(each.error, NoLeader) for each in asked)


def test_records_are_told_their_replies_behind_the_admit_and_before_decisions() -> None:
    inbox = Inbox()
    join, cancel, stale = Asked(), Asked(), Asked()
    inbox.add_record(r.Join("g", 0, 1, (), b""), 10, join)
    inbox.add_record(r.Cancel(("t",), ("x",)), 10, cancel)
    request = _add(inbox, "a")
    inbox.add_record(r.Advance(), 10, stale)
    verdicts = Verdicts(bytes([Verdict.UNKNOWN_REQUEST]))
    inbox.take(1, 1 << 20).landed(
        4,
        (
            Verdicts(bytes(1)),
            Reply(Verdict.OK, "", 4),
            verdicts,
            Reply(Verdict.NOT_LEADER),
            Reply(Verdict.VOID),
        ),
    )
    assert request.landed == Landed(4, Verdict.OK, "", 4)
    assert join.landed == Landed(4, Verdict.OK, "", 4)
    assert cancel.answers == [verdicts]
    assert isinstance(stale.error, NotLeader)


@pytest.mark.parametrize(
    "fields",
    [
        {"tenant": ""},
        {"tenant": "a\0b"},
        {"tenant": "x" * 257},
        {"tenant": "\ud800"},
        {"request_id": ""},
        {"request_id": "x" * 257},
        {"request_id": "\ud800"},
        {"key": ("m", "1", "\0")},
        {"key": ("m", "1", "x" * 4097)},
        {"traceparent": "x" * 4097},
        {"traceparent": "\0"},
        {"rows": 0},
        {"rows": True},
        {"rows": 1.0},
        {"rows": (1 << 40) + 1},
        {"priority": -1},
        {"priority": (1 << 16) + 1},
        {"timeout_ms": -1},
        {"timeout_ms": (1 << 40) + 1},
        {"content_hash": bytes(65)},
        {"content_hash": "h"},
        {"payload": "text"},
        {"parameters": bytes((1 << 20) + 1)},
    ],
)
def test_request_that_no_replica_could_read_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        admission("a")._replace(**fields).check()  # type: ignore[arg-type]


def test_request_of_any_text_is_taken_and_can_be_read() -> None:
    found = admission("größe", tenant="Ünal", traceparent="00-1", key=("m", "1", "é"))
    found.check()
    inbox = Inbox()
    _add(inbox, "größe", tenant="Ünal")
    entry = r.Entry(1, 1, tuple(inbox.take(1, 1 << 20).records))
    assert decode_entry(encode_entry(entry)).records == entry.records


def test_quick_check_of_a_request_takes_nothing_that_the_slow_one_refuses() -> None:
    """Every field at its bounds: what `check` lets pass, all replicas can read."""
    bounds: dict[str, list[object]] = {
        "tenant": ["t", "t" * 256],
        "request_id": ["r", "r" * 256],
        "content_hash": [b"", bytes(64)],
        "rows": [1, 1 << 40],
        "priority": [0, 1 << 16],
        "timeout_ms": [0, 1 << 40],
        "parameters": [b"", bytes(1 << 20)],
        "traceparent": ["", "x" * 4096],
        "key": [("m", "1", ""), ("m", "1", "x" * 4096)],
    }
    for name, values in bounds.items():
        for value in values:
            one: Admission = admission("a")._replace(**{name: value})  # type: ignore[arg-type]
            one.check()
            inbox = Inbox()
            inbox.add_request("n", one, len(one.payload) + len(one.parameters), Asked())
            check_record(inbox.take(1, 1 << 20).records[0])


def test_entry_is_about_some_thousands_of_requests_however_small_they_are() -> None:
    inbox = Inbox()
    for number in range(5000):
        _add(inbox, f"{number}", payload=b"")
    assert 3000 < len(_admit(inbox.take(1, 1 << 20)).request_id) < 4096
    _admit(inbox.take(1, 1 << 20))
    ids = tuple([f"{number}" for number in range(3000)])
    for kind in (r.Cancel, r.Acknowledge, r.Forget):
        inbox.add_record(kind(("t",) * 3000, ids), 100, Asked())
    many = tuple(range(1, 3001))
    kinds, texts, results = (0,) * 3000, ("",) * 3000, (b"",) * 3000
    of = (1, 1, 1, "g", 1, True, 0, 0, 0, 0, (1,), b"")
    report = r.Complete(*of, many, kinds, texts, texts, results)
    inbox.add_record(report, 100, Asked())
    taken = [inbox.take(1, 1 << 20).records for _ in range(4)]
    assert [type(record) for records in taken for record in records] == [
        r.Cancel,
        r.Acknowledge,
        r.Forget,
        r.Complete,
    ]
    assert [len(records) for records in taken] == [1, 1, 1, 1]
    assert inbox.size == 0


def test_texts_of_requests_count_in_an_entry() -> None:
    """Else small requests with long texts are an entry that no log takes, others' among them."""
    inbox, most = Inbox(), 100_000
    for n in range(400):
        key = ("m", "1", f"{n % 10:04000}")
        _add(inbox, str(n), payload=b"", key=key, traceparent="x" * 4096)
    assert inbox.size > 400 * 8000
    taken = 0
    while inbox:
        group = inbox.take(taken + 1, most)
        taken += len(group.admitting)
        entry = r.Entry(1, 0, tuple(group.records))
        assert len(encode_entry(entry)) <= most
    assert taken == 400
