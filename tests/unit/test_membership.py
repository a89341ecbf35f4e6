"""Memberships: their changes, what stays so once committed, and their bytes, whoever made them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.raft.membership import (
    ADDRESS_BYTES_MAX,
    MEMBERS_MAX,
    RETIRED_MAX,
    Member,
    Membership,
    Rank,
    decode,
    encode,
    founders,
)
from coordinator.raft.snapshot_format import CONFIG_BYTES_MAX
from raftbatch.errors import InvalidRequest
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N1, N2, N3, N4, members

THREE = members(N1, N2, N3)
NODES = st.sampled_from([NodeId(f"n{number}") for number in range(1, 7)])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("added"), NODES, st.sampled_from([Rank.LEARNER, Rank.JOINING])),
        st.tuples(st.just("promoted"), NODES),
        st.tuples(st.just("removed"), NODES),
        st.tuples(st.just("moved"), NODES),
    ),
    max_size=30,
)


def changed(membership: Membership, change: Sequence[object]) -> Membership:
    """Make a drawn change; one that cannot be changes nothing."""
    name, node, rest = change[0], change[1], change[2:]
    arguments = {"added": ("there:1", *rest), "moved": ("elsewhere:1",)}.get(str(name), ())
    make: Callable[..., Membership] = getattr(membership, str(name))
    try:
        return make(node, *arguments)
    except InvalidRequest:
        return membership


def lives(membership: Membership) -> set[tuple[NodeId, int]]:
    """Return who votes, each in its life."""
    return {(each.node_id, each.incarnation) for each in membership.members if each.votes}


@given(CHANGES)
def test_each_change_alters_one_voter_at_most_and_no_life_comes_back(
    changes: list[tuple[object, ...]],
) -> None:
    """So majorities before and after share a voter; and an incarnation is never used twice."""
    membership, seen = THREE, set[tuple[NodeId, int]]()
    over = set[tuple[NodeId, int]]()
    for change in changes:
        before, membership = membership, changed(membership, change)
        assert len(lives(before) ^ lives(membership)) <= 1
        assert membership.voters
        present = {(each.node_id, each.incarnation) for each in membership.members}
        over |= {life for life in seen if membership.why_over(*life) is not None}
        assert not present & over, "once over, over for good"
        assert seen - present <= over, "who is gone is over"
        seen |= present
        assert decode(encode(membership)) == membership


def test_membership_in_words() -> None:
    joining = THREE.added(N4, "n4:1", Rank.JOINING)
    assert str(joining) == "n1 n2 n3, joining n4"
    assert str(joining.removed(N4).added(N4, "n4:1", Rank.LEARNER)) == "n1 n2 n3, learner n4"
    assert str(Membership()) == "no voter"


def test_life_is_over_where_a_later_one_is_known() -> None:
    removed = THREE.removed(N3)
    assert THREE.why_over(N3, 1) is None
    assert removed.why_over(N3, 1) == "n3 was removed from the cluster, as incarnation 1"
    assert removed.why_over(N3, 2) is None
    again = removed.added(N3, "n3:1", Rank.JOINING)
    assert again.why_over(N3, 1) == "n3 was added again, as incarnation 2"
    assert again.why_over(N3, 2) is None
    assert again.why_over(N4, 1) is None, "nothing is known of it"
    assert Membership().why_over(N1, 1) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda: members(N1).removed(N1),
        lambda: members(N1).added(N1, "n1:1", Rank.JOINING),
        lambda: THREE.added(N4, "n4:1", Rank.VOTER),
        lambda: THREE.added(NodeId("no id"), "n4:1", Rank.JOINING),
        lambda: THREE.added(N4, "x" * (ADDRESS_BYTES_MAX + 1), Rank.JOINING),
        lambda: THREE.promoted(N1),
        lambda: THREE.removed(N4),
        lambda: THREE.moved(N3, "garbage"),
        lambda: THREE.moved(N3, "n2:1"),
        lambda: THREE.added(N4, "n4", Rank.LEARNER),
        lambda: THREE.added(N4, "n4:70000", Rank.LEARNER),
        lambda: THREE.added(N4, "n2:1", Rank.LEARNER),
        lambda: THREE.moved(N4, "n4:1"),
    ],
)
def test_change_that_cannot_be_is_refused(change: Callable[[], Membership]) -> None:
    with pytest.raises(InvalidRequest):
        change()


def test_largest_membership_fits_into_a_snapshots_header() -> None:
    """Else no snapshot could be taken any more."""
    many = Membership(
        tuple(
            Member(
                NodeId(f"{number:03}".ljust(63, "m")),
                (1 << 63) - 1,
                "a" * 253 + ":65535",
                Rank.VOTER,
            )
            for number in range(MEMBERS_MAX)
        ),
        tuple((NodeId(f"{n:03}".ljust(63, "r")), (1 << 63) - 1) for n in range(RETIRED_MAX)),
    )
    assert len(encode(many)) < CONFIG_BYTES_MAX
    assert decode(encode(many)) == many
    with pytest.raises(InvalidRequest, match="too many"):
        many.added(NodeId("z"), "z:1", Rank.LEARNER)
    with pytest.raises(InvalidRequest, match="too many"):
        many.removed(many.members[0].node_id)


@pytest.mark.parametrize(
    "content",
    [
        [],
        [2, [], []],
        [1, [], [], []],
        [1, {}, []],
        [True, [], []],
        [1, [["n1", 1, "n1:1", 4]], []],
        [1, [["n1", 0, "n1:1", 1]], []],
        [1, [["n1", True, "n1:1", 1]], []],
        [1, [["n1", 1 << 63, "n1:1", 1]], []],
        [1, [["n1", 1.0, "n1:1", 1]], []],
        [1, [["n1", 1, 7, 1]], []],
        [1, [[7, 1, "n1:1", 1]], []],
        [1, [["n1", 1, "", 1]], []],
        [1, [["n1", 1, "n1:1"]], []],
        [1, [["n2", 1, "n2:1", 1], ["n1", 1, "n1:1", 1]], []],
        [1, [["n1", 1, "n1:1", 1], ["n1", 2, "n1:1", 1]], []],
        [1, [["n1", 1, "n1:1", 1]], [["n1", 1]]],
        [1, [], [["n1", 1], ["n1", 2]]],
        [1, [], [["n1"]]],
        "text",
        None,
    ],
)
def test_bytes_of_no_membership_are_refused(content: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        decode(msgpack.packb(content))


@given(st.binary(max_size=200))
def test_decoding_fails_in_one_way_only(data: bytes) -> None:
    try:
        membership = decode(data)
    except ValueError:
        return
    assert encode(membership) == data


@given(st.integers(0, 200), st.integers(0, 255))
def test_changed_bytes_are_another_membership_or_none(place: int, value: int) -> None:
    data = bytearray(encode(THREE.removed(N2).added(N4, "n4:1", Rank.JOINING)))
    data[place % len(data)] = value
    try:
        membership = decode(bytes(data))
    except ValueError:
        return
    assert encode(membership) == bytes(data), "each has one form"


def test_cluster_needs_a_founder() -> None:
    with pytest.raises(ValueError, match="needs a voter"):
        founders({})
