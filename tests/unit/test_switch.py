"""The switch's links in a time of their own, and its ports over sockets: no root, no waiting."""

import json
import os
import socket
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.worlds.switch import LINE_BYTES_MAX, Link, Rule, Switch


def _link(rule: Rule, seed: int = 1) -> Link:
    link = Link(Random(seed))
    link.change(rule)
    return link


def _sent(link: Link, count: int, at_s: float = 0.0) -> None:
    for number in range(count):
        link.take(number.to_bytes(4, "big"), at_s)


def _dues(link: Link) -> list[float]:
    dues = []
    while (due_s := link.due_s) is not None:
        arrived = link.arriving(due_s)
        dues += [due_s] * len(arrived)
    return dues


@pytest.mark.parametrize(
    "fields",
    [{"loss": 1.1}, {"loss": -0.1}, {"duplicate": 2.0}, {"delay_s": -1.0}, {"bytes_per_s": -1}],
)
def test_rule_refuses_what_no_link_can_do(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"share|negative"):
        Rule(**fields)


def test_link_without_a_rule_is_plain() -> None:
    assert _link(Rule()).plain
    assert not _link(Rule(cut=True)).plain


def test_link_delays_each_frame_as_long() -> None:
    link = _link(Rule(delay_s=0.5))
    link.take(b"a", 1.0)
    link.take(b"b", 1.25)
    assert link.due_s == 1.5
    assert link.arriving(1.49) == []
    assert link.arriving(1.5) == [b"a"]
    assert link.arriving(2.0) == [b"b"]
    assert link.due_s is None


@given(
    seed=st.integers(0, 1000),
    times=st.lists(st.floats(0, 10), min_size=1, max_size=50).map(sorted),
    delay_s=st.floats(0, 5),
    jitter_s=st.floats(0, 5),
)
def test_link_keeps_the_order_and_the_least_delay(
    seed: int, times: list[float], delay_s: float, jitter_s: float
) -> None:
    link = _link(Rule(delay_s=delay_s, jitter_s=jitter_s, duplicate=0.1), seed)
    for number, at_s in enumerate(times):
        link.take(number.to_bytes(4, "big"), at_s)
    arrived = []
    while (due_s := link.due_s) is not None:
        for frame in link.arriving(due_s):
            number = int.from_bytes(frame, "big")
            assert times[number] + delay_s <= due_s <= times[-1] + delay_s + jitter_s
            arrived.append(number)
    assert arrived == sorted(arrived)
    assert set(arrived) == set(range(len(times)))


def test_link_drops_and_doubles_the_share_it_is_told() -> None:
    link = _link(Rule(loss=0.25, duplicate=0.5))
    _sent(link, 4000)
    counts = link.counts
    arrived = len(link.arriving(0.0))
    assert arrived == 4000 - counts.lost + counts.duplicated
    assert 900 < counts.lost < 1100
    assert 1350 < counts.duplicated < 1650


def test_link_draws_the_same_from_the_same_seed() -> None:
    def arrived(seed: int) -> list[bytes]:
        link = _link(Rule(loss=0.5), seed)
        _sent(link, 100)
        return link.arriving(0.0)

    assert arrived(1) == arrived(1) != arrived(2)


def test_link_lets_no_more_pass_in_a_second() -> None:
    link = _link(Rule(bytes_per_s=40, delay_s=1.0))
    _sent(link, 30)  # of 4 bytes: one each tenth of a second
    assert _dues(link) == pytest.approx([1.0 + number / 10 for number in range(1, 31)])
    link.take(b"late", 100.0)  # an idle link has saved nothing up, and owes nothing
    assert link.due_s == pytest.approx(101.1)


def test_link_drops_what_its_queue_cannot_hold() -> None:
    link = _link(Rule(bytes_per_s=40, queue_bytes=12))
    _sent(link, 30)
    assert link.counts.overflowed == 27
    assert link.arriving(0.1) == [bytes(4)]
    _sent(link, 30, at_s=0.15)  # one has left, another half
    assert link.counts.overflowed == 27 + 29


def test_link_with_a_queue_smaller_than_a_frame_still_passes_one() -> None:
    link = _link(Rule(bytes_per_s=40, queue_bytes=0))
    _sent(link, 2)
    assert len(_dues(link)) == 1


def test_link_holds_no_more_than_its_limit() -> None:
    link = _link(Rule(delay_s=1.0))
    frame = bytes(1 << 20)
    for _ in range((LINE_BYTES_MAX >> 20) + 3):
        link.take(frame, 0.0)
    assert link.counts.overflowed == 3
    assert len(link.arriving(1.0)) == LINE_BYTES_MAX >> 20
    link.take(frame, 1.0)
    assert link.counts.overflowed == 3


def test_link_that_changes_lets_arrive_what_was_on_its_way_in_order() -> None:
    link = _link(Rule(delay_s=60.0, bytes_per_s=1, queue_bytes=1000))
    _sent(link, 3)
    assert link.change(Rule(delay_s=1.0)) == [number.to_bytes(4, "big") for number in range(3)]
    assert link.due_s is None
    link.take(b"next", 0.0)
    assert link.due_s == 1.0


def test_link_that_is_cut_drops_what_was_on_its_way() -> None:
    link = _link(Rule(delay_s=60.0))
    _sent(link, 3)
    assert link.change(Rule(cut=True)) == []
    _sent(link, 2)
    assert link.counts.cut == 5
    assert link.change(Rule()) == []


class Stations:
    """A switch whose ports are sockets, and what is at their other ends."""

    def __init__(self, count: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(count)]
        self.ends = [end for end, _ in pairs]
        self._ports = [port for _, port in pairs]
        for each in (*self.ends, *self._ports):
            each.setblocking(False)
        self.control, self._controlled = socket.socketpair()
        self.switch = Switch([port.fileno() for port in self._ports], self._controlled, "7")

    def send(self, source: int, target: int, words: bytes = b"") -> None:
        """Send a frame from one to another, and let the switch take it in."""
        self.ends[source].send(bytes([2, 0, 0, 0, 0, target]) + words)
        assert self.switch.turn()

    def received(self, target: int) -> list[bytes]:
        """Return the frames that have come there, without the address."""
        frames = []
        while True:
            try:
                frames.append(self.ends[target].recv(100)[6:])
            except BlockingIOError:
                return frames

    def tell(self, **command: Any) -> Any:
        """Give a command; return the answer."""
        self.control.sendall(json.dumps(command).encode() + b"\n")
        assert self.switch.turn()
        return json.loads(self.control.recv(65_536))

    def close(self) -> None:
        """Close every socket that is open."""
        for each in (*self.ends, *self._ports, self.control, self._controlled):
            each.close()


@pytest.fixture
def stations() -> Iterator[Stations]:
    found = Stations(3)
    yield found
    found.close()


def test_switch_hands_a_frame_to_whom_it_is_addressed(stations: Stations) -> None:
    stations.send(0, 1, b"a")
    assert [stations.received(target) for target in range(3)] == [[], [b"a"], []]


def test_switch_hands_what_is_for_all_to_all_others(stations: Stations) -> None:
    stations.ends[1].send(b"\xff" * 6 + b"a")
    assert stations.switch.turn()
    assert [stations.received(target) for target in range(3)] == [[b"a"], [], [b"a"]]


@pytest.mark.parametrize("target", [0, 3, 255])
def test_switch_drops_what_is_for_nobody(stations: Stations, target: int) -> None:
    stations.send(0, target, b"a")
    assert [stations.received(target) for target in range(3)] == [[], [], []]


def test_switch_follows_a_rule_for_one_direction_of_one_pair(stations: Stations) -> None:
    stations.tell(rules=[[0, 1, {"cut": True}]])
    for source, target in ((0, 1), (1, 0), (0, 2), (2, 1)):
        stations.send(source, target, bytes([source]))
    assert [stations.received(target) for target in range(3)] == [[b"\1"], [b"\2"], [b"\0"]]
    counts = {(source, target): each for source, target, each in stations.tell(counts=True)}
    assert counts[0, 1]["cut"] == 1
    assert counts[0, 1]["passed"] == 0
    assert counts[1, 0]["passed"] == 1


def test_switch_hands_over_what_was_delayed(stations: Stations) -> None:
    stations.tell(rules=[[0, 1, {"delay_s": 0.002}], [0, 2, {"delay_s": 3600.0}]])
    stations.send(0, 2, b"b")
    stations.send(0, 1, b"a")
    while not (got := stations.received(1)):
        assert stations.switch.turn()  # waits until a frame is due
    assert got == [b"a"]
    assert stations.received(2) == []
    stations.tell(rules=[[0, 2, {}]])
    assert stations.received(2) == [b"b"]


def test_switch_goes_on_without_a_port_that_is_gone(stations: Stations) -> None:
    with open(os.devnull, "wb") as unreadable:
        os.dup2(unreadable.fileno(), stations.switch._ports[0])
    assert stations.switch.turn()
    stations.send(1, 2, b"a")
    assert stations.received(2) == [b"a"]


def test_switch_ends_with_its_control(stations: Stations) -> None:
    stations.control.close()
    assert not stations.switch.turn()
