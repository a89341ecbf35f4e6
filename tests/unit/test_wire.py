"""Messages and frames: each survives its bytes, and nothing else is one."""

from collections.abc import Sequence
from random import Random
from typing import Any, get_args

import msgpack
import pytest

from coordinator.raft import wire
from coordinator.raft.frames import (
    BULK,
    CHUNK_BYTES_MAX,
    PING,
    PING_FRAME,
    URGENT,
    URGENT_BYTES_MAX,
    Inbox,
    Outbox,
)
from coordinator.raft.greeting import Malformed
from coordinator.raft.membership import encode as encode_membership
from coordinator.raft.membership import founders
from coordinator.raft.messages import (
    DIGESTS_MAX,
    AppendEntries,
    AppendReply,
    Beat,
    Digests,
    InstallSnapshot,
    Message,
    PeerMessage,
    PreVote,
    PreVoteReply,
    RequestVote,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.segments.layout import NUMBER_MAX, Entry
from raftbatch.ids import NodeId
from raftbatch.world import Buffer

BIG = bytes(range(256)) * 64  # beyond what is joined

MEMBERS = encode_membership(founders({NodeId("n1"): "n1:1"}))


def entries(first: int, *data: bytes, term: int = 3) -> tuple[Entry, ...]:
    """Return entries that follow each other."""
    return tuple(Entry(index, term, each) for index, each in enumerate(data, start=first))


EXAMPLES: tuple[PeerMessage, ...] = (
    PreVote(3, 5, 2),
    PreVoteReply(3, True, 2),
    RequestVote(NUMBER_MAX, 0, 0, False),
    VoteReply(0, False),
    AppendEntries(4, 7, 2, (), 6, 9),
    AppendEntries(4, 0, 0, entries(1, b"", b"a", BIG, b"bc", b"", BIG, BIG, b"d"), 1, 9),
    AppendEntries(4, 7, 2, entries(8, *[b"x" * length for length in range(50)]), 9, 1),
    AppendEntries(5, 7, 2, (*entries(8, b"x"), *entries(9, BIG, term=5)), 9, 1),
    AppendEntries(4, 0, 0, (Entry(1, 1, MEMBERS, True), Entry(2, 1, b"", False)), 0, 1),
    AppendReply(1, 2, 3, 2, 1, 9),
    InstallSnapshot(4, 9, 3, MEMBERS, 3 + len(BIG), b"c" * 32, 3, BIG, 8),
    InstallSnapshot(4, 9, 3, MEMBERS, 0, b"", 0, b"", 8),
    SnapshotReply(1, 2, NUMBER_MAX, 4),
    TimeoutNow(5),
    Beat(3, 8),
    AppendEntries(4, 7, 2, (Entry(8, 3, MEMBERS, is_config=True), *entries(9, b"x")), 6, 9),
    Digests(((1, b"d"), (NUMBER_MAX, b"e" * 64))),
    Digests(tuple((32 * number, b"digest %9d" % number) for number in range(1, DIGESTS_MAX + 1))),
)


def bytes_of(message: PeerMessage) -> bytes:
    """Return a message's bytes in one piece."""
    return b"".join(wire.encode(message))


def read(data: bytes) -> PeerMessage:
    """Read a message."""
    return wire.decode(memoryview(data))


def test_wire_examples_are_of_every_kind() -> None:
    assert {type(each) for each in EXAMPLES} == {*get_args(Message), Digests}


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda each: type(each).__name__)
def test_wire_message_survives_its_bytes(message: Message) -> None:
    again = read(bytes_of(message))
    assert again == message
    assert type(again) is type(message)


def test_wire_passes_large_data_through_and_joins_small() -> None:
    data = (b"a", BIG, b"b", b"c", BIG)
    buffers = wire.encode(AppendEntries(4, 0, 0, entries(1, *data), 0, 0))
    assert [each is BIG for each in buffers] == [False, True, False, True]
    assert len(wire.encode(AppendEntries(4, 0, 0, entries(1, *[b"x"] * 100), 0, 0))) == 1
    assert wire.encode(InstallSnapshot(4, 9, 3, MEMBERS, len(BIG), b"", 0, BIG, 8))[-1] is BIG


def test_wire_keeps_nothing_of_what_it_read() -> None:
    for message in EXAMPLES:
        data = bytearray(bytes_of(message))
        again = wire.decode(memoryview(data))
        data[:] = bytes(len(data))
        assert again == message


def test_wire_message_cut_short_or_longer_is_malformed() -> None:
    for message in EXAMPLES:
        data = bytes_of(message)
        for length in {*range(min(len(data), 200)), len(data) - 1}:
            with pytest.raises(Malformed):
                read(data[:length])
        with pytest.raises(Malformed):
            read(data + b"\0")


def mutated(rng: Random, data: bytes) -> bytes:
    """Return the bytes with a few of them changed, lost, added or doubled, most near the front."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(min(len(changed), rng.choice((8, 60, 1 << 20))) + 1)
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                changed[at : at + 1] = bytes([rng.choice((0, 0x7F, 0x90, 0xC2, 0xC3, 0xCF, 0xFF))])
            case 2:
                del changed[at : at + rng.randint(1, 9)]
            case 3:
                changed[at:at] = rng.randbytes(rng.randint(1, 9))
            case _:
                changed[at:at] = changed[at : at + rng.randint(1, 9)]
    return bytes(changed)


def test_wire_is_a_message_or_malformed_whatever_the_bytes() -> None:
    rng = Random(7)
    small = [bytes_of(message) for message in EXAMPLES]
    small = [each if len(each) < 2_000 else each[:300] for each in small]
    outcomes = {"message": 0, "malformed": 0}
    for _ in range(100_000):
        try:
            message = read(mutated(rng, rng.choice(small)))
        except Malformed:
            outcomes["malformed"] += 1
        else:
            outcomes["message"] += 1
            assert read(bytes_of(message)) == message
    assert min(outcomes.values()) > 1_000, outcomes


def packed(fields: Any, rest: bytes = b"") -> bytes:
    """Return a message made by hand."""
    head: bytes = msgpack.packb(fields)
    return len(head).to_bytes(4, "big") + head + rest


def test_wire_takes_what_is_made_by_hand_as_it_should_be() -> None:
    appended = read(packed([5, 4, 7, 2, 6, 9, [3, 4], [1, 2], b"\0\0"], b"abc"))
    assert appended == AppendEntries(4, 7, 2, (Entry(8, 3, b"a"), Entry(9, 4, b"bc")), 6, 9)
    piece = read(packed([7, 4, 9, 3, MEMBERS, 10, b"c", 6, 8, 4], b"data"))
    assert piece == InstallSnapshot(4, 9, 3, MEMBERS, 10, b"c", 6, b"data", 8)


@pytest.mark.parametrize(
    "data",
    [
        packed([]),
        packed({}),
        packed(1),
        packed(None),
        packed(["9", 1]),
        packed([True, 1, 2, 3]),
        packed([0, 1]),
        packed([99, 1]),
        packed([-1, 1]),
        packed([[9], 1]),
        packed([9]),
        packed([9, 1, 1]),
        packed([9, -1]),
        packed([9, 1 << 63]),
        packed([9, True]),
        packed([9, 1.0]),
        packed([9, None]),
        packed([9, "1"]),
        packed([9, b"1"]),
        packed([9, [1]]),
        packed([9, 1], b"x"),
        packed([4, 1, 1]),
        packed([4, False, True]),
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        (20_000).to_bytes(4, "big") + b"\x91" * 20_000,
        (5).to_bytes(4, "big") + b"\xdd\xff\xff\xff\xff",
        (6).to_bytes(4, "big") + b"\xc6\xff\xff\xff\xff\0",
        packed([9, msgpack.Timestamp(1)]),
        packed([5, 4, 7, 2, 6, 9, [3], [1], b"\0"], b""),
        packed([5, 4, 7, 2, 6, 9, [3], [1], b"\0"], b"ab"),
        packed([5, 4, 7, 2, 6, 9, [3], [1], b"\x02"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [3], [1], b""], b"a"),
        packed([5, 4, 7, 2, 6, 9, [3, 3], [1], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [3], [1, 0], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [3, 3], [-1, 2], b"\0\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [3, 3], [True, 0], b"\0\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [True], [1], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [3.0], [1], b"\0"], b"a"),
        packed([5, 4, 7, 0, 6, 9, [0], [1], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [1], [1], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [5], [1], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [4, 3], [1, 1], b"\0\0"], b"ab"),
        packed([5, 4, NUMBER_MAX, 2, 6, 9, [3], [1], b"\0"], b"a"),
        packed([5, 4, 7, 2, 6, 9, [], [], b""], b"a"),
        packed([5, 4, 7, 2, 6, 9, [], [], []]),
        packed([5, 4, 7, 2, 6, -9, [], [], b""]),
        packed([5, 4, 7, 2, 6, [], [], b""]),
        packed([7, 4, 9, 3, MEMBERS, 9, b"c", 6, 8, 4], b"data"),
        packed([7, 4, 9, 3, MEMBERS, 10, b"c", 6, 8, 3], b"data"),
        packed([7, 4, 9, 3, MEMBERS, 10, b"c", 6, 8, 5], b"data"),
        packed([7, 4, 9, 3, "m", 10, b"c", 6, 8, 4], b"data"),
        packed([7, 4, 9, 3, MEMBERS, 10, b"c" * 65, 6, 8, 4], b"data"),
        packed([7, 4, 9, 3, bytes(wire.CONFIG_BYTES_MAX + 1), 10, b"c", 6, 8, 4], b"data"),
        packed([7, 4, 9, 3, MEMBERS, 10, b"c", -1, 8, 4], b"data"),
        packed([11, [], []]),
        packed([11, [1], [b"d"], 1]),
        packed([11, [1], [b"d"]], b"x"),
        packed([11, [1, 2], [b"d"]]),
        packed([11, [2, 1], [b"d", b"d"]]),
        packed([11, [1, 1], [b"d", b"d"]]),
        packed([11, [0], [b"d"]]),
        packed([11, [True], [b"d"]]),
        packed([11, [1], ["d"]]),
        packed([11, [1], [b""]]),
        packed([11, [1], [b"d" * 65]]),
        packed([11, [1 << 63], [b"d"]]),
        packed([11, list(range(1, 18)), [b"d"] * 17]),
    ],
    ids=lambda data: data[4:20].hex(),
)
def test_wire_refuses_other_bytes(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


# Frames.


class Ends:
    """An outbox, an inbox, and the messages that came out of it."""

    def __init__(self, message_bytes_max: int = 1 << 30) -> None:
        self.outbox = Outbox()
        self.taken: list[bytes] = []
        self.stops = False
        self.inbox = Inbox(message_bytes_max, self._take)

    def _take(self, data: memoryview) -> bool:
        self.taken.append(bytes(data))
        return not self.stops

    def put(self, data: Buffer, piece_bytes: int = 1 << 30) -> None:
        """Let bytes come in, in pieces."""
        rest = memoryview(data)
        while rest:
            room = self.inbox.buffer()
            length = min(len(room), len(rest), piece_bytes)
            assert length > 0
            room[:length] = rest[:length]
            rest = rest[length:]
            self.inbox.received(length)


def parts(rng: Random, length: int) -> list[bytes]:
    """Return a message of that length in some buffers."""
    data = rng.randbytes(length)
    cuts = sorted(rng.randrange(length + 1) for _ in range(rng.randrange(5)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, length], strict=True)]


@pytest.mark.parametrize("piece_bytes", [1, 7, 5_000, 65_546, 1 << 30])
def test_frames_keep_the_order_of_each_lane_however_they_are_cut(piece_bytes: int) -> None:
    rng = Random(piece_bytes)
    ends = Ends()
    lengths = [1, 4096, 4097, 65_535, 65_536, 65_537, 131_072, 300_000, 5]
    if piece_bytes > 100:
        lengths.append(3_000_000)
    bulk = [parts(rng, length) for length in lengths]
    urgent = [parts(rng, rng.randint(1, 200)) for _ in range(50)]
    waiting = list(urgent)
    for each in bulk:
        ends.outbox.add_bulk(each)
    while ends.outbox or waiting:
        for each in waiting[:2]:
            ends.outbox.add_urgent(each)
        del waiting[:2]
        ends.put(b"".join(ends.outbox.take(rng.choice((1, 100_000)))), piece_bytes)
    assert not ends.outbox.take(1)
    assert (ends.outbox.bulk_bytes, ends.outbox.urgent_bytes) == (0, 0)
    names = [b"".join(each) for each in urgent]
    assert [each for each in ends.taken if each in names] == names
    assert [each for each in ends.taken if each not in names] == [b"".join(each) for each in bulk]


def test_frames_let_what_is_urgent_go_before_the_next_chunk() -> None:
    ends = Ends()
    ends.outbox.add_bulk([bytes(3 * CHUNK_BYTES_MAX)])
    ends.put(b"".join(ends.outbox.take(1)))
    ends.outbox.add_urgent([b"vote"])
    ends.put(b"".join(ends.outbox.take(1)))
    assert ends.taken == [b"vote"]
    assert ends.outbox.bulk_bytes == CHUNK_BYTES_MAX
    assert ends.outbox.bulk_messages == 1
    ends.put(b"".join(ends.outbox.take(1)))
    assert len(ends.taken[1]) == 3 * CHUNK_BYTES_MAX


def test_frames_pass_large_buffers_through() -> None:
    outbox = Outbox()
    outbox.add_bulk([b"head", BIG, b"a", b"b", BIG])
    outbox.add_urgent([b"vote"])
    buffers = outbox.take(1)
    assert [each is BIG for each in buffers] == [False, False, True, False, True]
    large = bytes(CHUNK_BYTES_MAX + 5_000)
    outbox.add_bulk([large])
    views = [each for each in outbox.take(1 << 20) if isinstance(each, memoryview)]
    assert [len(each) for each in views] == [CHUNK_BYTES_MAX, 5_000]
    assert all(each.obj is large for each in views)


def frame(kind: int, content: bytes, rest: int | None = None) -> bytes:
    """Return a frame made by hand."""
    if rest is not None:
        content = rest.to_bytes(4, "big") + content
    return len(content).to_bytes(4, "big") + bytes([kind]) + content


def test_frames_take_what_is_made_by_hand_as_it_should_be() -> None:
    ends = Ends()
    ends.put(PING_FRAME + frame(PING, b"") + frame(URGENT, b"a") + frame(BULK, b"bc", 0))
    ends.put(frame(BULK, b"d", 3) + frame(URGENT, b"e") + frame(BULK, b"fg", 1))
    ends.put(frame(BULK, b"h", 0))
    assert ends.taken == [b"a", b"bc", b"e", b"dfgh"]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([frame(3, b"")], "unknown_frame"),
        ([frame(255, b"abc")], "unknown_frame"),
        ([frame(PING, b"x")], "long_frame"),
        ([frame(BULK, b"", 0)], "short_frame"),
        ([frame(BULK, b"", 5)], "short_frame"),
        ([frame(BULK, b"abc")], "short_frame"),
        ([frame(BULK, b"a", 3), frame(BULK, b"bcd", 1)], "other_chunk"),
        ([frame(BULK, b"a", 3), frame(BULK, b"bcde", 0)], "other_chunk"),
        ([frame(BULK, b"a", 3), frame(BULK, b"b", 3)], "other_chunk"),
        ([frame(BULK, b"a", 1_000)], "long_message"),
        ([frame(BULK, b"a", (1 << 32) - 1)], "long_message"),
        ([frame(BULK, bytes(1_001), 0)], "long_message"),
        ([frame(URGENT, bytes(URGENT_BYTES_MAX + 1))[:10]], "long_frame"),
        ([frame(BULK, bytes(CHUNK_BYTES_MAX + 1), 0)[:10]], "long_frame"),
        ([b"GET / HTTP/1.1"], "unknown_frame"),
    ],
    ids=range(15),
)
def test_frames_refuse_other_bytes(frames: Sequence[bytes], reason: str) -> None:
    ends = Ends(message_bytes_max=1_000)
    for each in frames[:-1]:
        ends.put(each)
    with pytest.raises(Malformed) as caught:
        ends.put(frames[-1])
    assert caught.value.reason == reason
    assert ends.taken == []


def test_frames_are_frames_or_malformed_whatever_the_bytes() -> None:
    rng = Random(3)
    outcomes = {"taken": 0, "malformed": 0}
    good = [frame(URGENT, b"abc"), frame(BULK, b"abc", 0), frame(PING, b""), frame(BULK, b"a", 1)]
    for _ in range(4_000):
        ends = Ends(message_bytes_max=100_000)
        try:
            ends.put(b"".join(mutated(rng, rng.choice(good)) for _ in range(3)), 8)
        except Malformed:
            outcomes["malformed"] += 1
        else:
            outcomes["taken"] += bool(ends.taken)
    assert min(outcomes.values()) > 10, outcomes


def test_frames_stop_where_they_are_told_to() -> None:
    ends = Ends()
    ends.stops = True
    ends.put(frame(URGENT, b"a") + frame(URGENT, b"b"))
    assert ends.taken == [b"a"]
