"""Replicas that tell each other their digests: who differs stops, and nobody else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator import agreement
from coordinator.agreement import DOUBT_S, EVERY
from coordinator.raft.membership import Membership, Rank
from coordinator.raft.messages import DIGESTS_MAX, Digests
from coordinator.raft.segments.layout import Entry
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.errors import Diverged, NotLeader
from tests.unit.agreement_scene import ME, N2, N3, N4, N5, NAMES, Other, Scene


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_milestones_are_where_the_log_says_and_told_to_all_members(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.upto(EVERY - 1)
    assert not scene.log.told
    scene.apply(EVERY + 3)  # the log's own entries stand between
    milestone = Digests(((EVERY + 3, scene.replica.digest),))
    assert scene.log.told == [(N2, milestone), (N3, milestone)]
    scene.upto(2 * EVERY - 1)
    assert scene.agreement.counts.milestones_total == 1
    scene.apply(5 * EVERY)
    assert scene.agreement.counts.milestones_total == 2


def test_replica_that_has_what_the_others_have_goes_on(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.hears(N2, 1)  # no milestone of ours: it is passed over
    scene.upto(EVERY)
    assert scene.agreement.counts.agreed_total == 0  # one of three says nothing
    scene.hears(N2, EVERY)
    assert scene.agreement.counts.agreed_total == 1
    scene.hears(N3, EVERY)
    scene.right.apply(EVERY + 1, r.Advance())
    assert scene.agreement.counts.agreed_total == 1
    assert not scene.agreement.is_over
    assert scene.retired == 0


def test_follower_that_a_majority_contradicts_stops(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.upto(EVERY - 1)
    scene.flip()
    scene.apply(EVERY)
    scene.hears(N2, EVERY)
    assert scene.retired == 0  # one against one: the third has to say
    with pytest.raises(Diverged) as raised:
        scene.hears(N3, EVERY)
    said = str(raised.value)
    assert f"at index {EVERY} the digest of n1 is {scene.replica.digest.hex()}" in said
    assert (
        f"that of n2, n3, a majority of the voters, is {scene.right.digests[EVERY].hex()}" in said
    )
    assert (
        "Keep a copy of /data/n1 for a bug report; then empty it, and start n1 with --join" in said
    )
    assert scene.retired == 1
    assert scene.agreement.is_over
    scene.apply(2 * EVERY)
    scene.hears(N2, 2 * EVERY)  # nothing is said or told any more
    scene.process.call(scene.agreement.came, N2)
    assert [digests for _, digests in scene.log.told] == [scene.log.told[0][1]] * 2
    scene.loop.run_for(2 * DOUBT_S)
    assert scene.log.failure is None  # it was raised already


def test_node_that_is_behind_learns_of_it_before_anybody_is_told_of_the_entry(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop)
    scene.upto(EVERY - 2)
    for _ in range(2):
        scene.right.apply(scene.right.replica.index + 1, r.Advance())
    scene.hears(N2, EVERY)
    scene.hears(N3, EVERY)
    scene.right = Other()  # asked for nothing more
    told: list[int] = []

    class Next:
        def applied(self, index: int, *_: object) -> None:
            told.append(index)

        def installed(self) -> None:
            raise AssertionError

    scene.replica.listeners.append(Next())
    scene.flip()

    def apply(index: int) -> None:
        data = encode_entry(r.Entry(1, index, (r.Advance(),)))
        scene.process.call(scene.replica.apply, Entry(index, 1, data))

    apply(EVERY - 1)
    with pytest.raises(Diverged):
        apply(EVERY)
    assert told == [EVERY - 1]


def test_majority_goes_on_when_another_differs_and_says_so_once(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(loop)
    scene.upto(2 * EVERY)
    with caplog.at_level(logging.ERROR):
        scene.hears(N2, EVERY, wrong="wrong")
        scene.hears(N3, EVERY)
        scene.hears(N2, 2 * EVERY, wrong="wrong")
        scene.hears(N3, 2 * EVERY)
    assert scene.agreement.counts.differing_total == 1
    assert [each.message for each in caplog.records].count("digest.differs") == 1
    scene.loop.run_for(2 * DOUBT_S)
    assert (scene.log.failure, scene.agreement.is_over) == (None, False)
    scene.process.call(scene.agreement.came, N2)  # another life of it
    scene.upto(3 * EVERY)
    scene.hears(N2, 3 * EVERY, wrong="wrong")
    scene.hears(N3, 3 * EVERY)
    assert scene.agreement.counts.differing_total == 2


def test_all_stop_where_no_majority_can_agree(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.leads(n2=EVERY, n3=EVERY)
    scene.upto(EVERY)
    scene.hears(N2, EVERY, wrong="one")
    with pytest.raises(Diverged) as raised:
        scene.hears(N3, EVERY, wrong="other")
    assert "digests differ, and no majority of the voters agrees: n1 has " in str(raised.value)
    assert "Nobody can say who is right" in str(raised.value)
    assert scene.retired == 1
    assert scene.log.moved == []  # to whom should it be handed?


def test_two_that_differ_stop_where_there_are_no_others(loop: VirtualLoop) -> None:
    scene = Scene(loop, ME, N2)
    scene.upto(EVERY)
    with pytest.raises(Diverged):
        scene.hears(N2, EVERY, wrong="wrong")


def test_node_alone_agrees_with_itself(loop: VirtualLoop) -> None:
    scene = Scene(loop, ME)
    scene.upto(EVERY)
    assert scene.agreement.counts.agreed_total == 1


def test_silent_voter_has_some_time_to_decide(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.upto(EVERY)
    scene.hears(N2, EVERY, wrong="wrong")
    scene.loop.run_for(DOUBT_S - 1)
    scene.upto(2 * EVERY)
    scene.hears(N2, 2 * EVERY, wrong="wrong")  # one doubt at a time
    assert scene.agreement.counts.doubts_total == 1
    scene.hears(N3, 2 * EVERY)
    scene.loop.run_for(2 * DOUBT_S)
    assert (scene.log.failure, scene.agreement.is_over) == (None, False)

    scene.upto(3 * EVERY)
    scene.hears(N2, 3 * EVERY, wrong="wrong")
    scene.loop.run_for(DOUBT_S + 1)
    assert isinstance(scene.log.failure, Diverged)
    assert "too few voters have said within 30 s what they have" in str(scene.log.failure)
    assert scene.retired == 1


def test_later_milestone_vouches_for_those_before_it(loop: VirtualLoop) -> None:
    """Digests roll on: who began anew behind one that differs cannot speak of it, and need not."""
    scene = Scene(loop)
    scene.upto(2 * EVERY)
    scene.hears(N3, 2 * EVERY)
    scene.hears(N2, EVERY, wrong="wrong")  # it is behind, and N3 has forgotten so much
    assert scene.agreement.counts.doubts_total == 0
    assert scene.agreement.counts.differing_total == 1
    scene.loop.run_for(2 * DOUBT_S)
    assert (scene.log.failure, scene.agreement.is_over) == (None, False)


def test_doubt_is_not_answered_by_an_earlier_milestone(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.upto(2 * EVERY)
    scene.hears(N2, 2 * EVERY, wrong="wrong")
    scene.hears(N3, EVERY)  # what it has since, it does not say
    assert scene.agreement.counts.agreed_total == 1
    scene.loop.run_for(DOUBT_S + 1)
    assert isinstance(scene.log.failure, Diverged)


def test_snapshot_ends_a_doubt(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.upto(EVERY)
    scene.hears(N2, EVERY, wrong="wrong")
    scene.replica.state.index = scene.replica.index = 3 * EVERY + 5
    scene.process.call(scene.agreement.installed)
    scene.loop.run_for(2 * DOUBT_S)
    assert scene.log.failure is None
    scene.apply(4 * EVERY - 1)  # of the snapshot's own span: no milestone
    assert scene.agreement.counts.milestones_total == 1
    scene.apply(4 * EVERY)
    assert scene.agreement.counts.milestones_total == 2


def test_leader_that_erred_hands_over_to_one_that_is_right(loop: VirtualLoop) -> None:
    scene = Scene(loop, *NAMES)
    scene.leads(n2=EVERY, n3=EVERY + 9, n4=EVERY + 5, n5=EVERY)
    scene.log.followers[N4].is_connected = False
    scene.log.takes = False
    scene.upto(EVERY - 1)
    scene.flip()
    scene.apply(EVERY)
    scene.hears(N2, EVERY, wrong="erred too")
    for each in (N3, N4, N5):
        scene.hears(each, EVERY)
    assert scene.retired == 1  # before anything else
    assert scene.log.failure is None
    scene.loop.run_for(0)
    assert scene.log.moved == [N3, N5]  # who holds most first; neither who erred nor who is away
    assert isinstance(scene.log.failure, Diverged)


@pytest.mark.parametrize("takes", [True, None, NotLeader("it has moved")])
def test_leader_that_erred_stops_whatever_becomes_of_the_hand_over(
    loop: VirtualLoop, takes: bool | Exception | None
) -> None:
    scene = Scene(loop)
    scene.leads(n2=1, n3=1)
    scene.log.takes = takes
    scene.upto(EVERY - 1)
    scene.flip()
    scene.apply(EVERY)
    scene.hears(N2, EVERY)
    scene.hears(N3, EVERY)
    scene.loop.run_for(5.0)
    assert scene.log.moved == [N2]
    assert isinstance(scene.log.failure, Diverged)


def test_hand_over_is_given_up_when_the_node_is_closed(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.leads(n2=1, n3=1)
    scene.log.takes = None
    scene.upto(EVERY - 1)
    scene.flip()
    scene.apply(EVERY)
    scene.hears(N2, EVERY)
    scene.hears(N3, EVERY)
    scene.loop.run_for(0)
    scene.process.call(scene.agreement.close)
    scene.loop.run_for(5.0)
    assert scene.log.failure is None


def test_member_that_comes_is_told_the_last_milestones_and_begins_anew(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.process.call(scene.agreement.came, N2)
    assert scene.log.told == []
    scene.upto(20 * EVERY)
    scene.log.told.clear()
    scene.hears(N2, EVERY, wrong="its life before")
    scene.process.call(scene.agreement.came, N2)
    [(peer, digests)] = scene.log.told
    assert peer == N2
    milestones = [(index * EVERY, scene.right.digests[index * EVERY]) for index in range(5, 21)]
    assert list(digests.pairs) == milestones
    assert len(milestones) == DIGESTS_MAX
    scene.hears(N3, EVERY, wrong="its life before")  # no majority with what N2 said before
    assert not scene.agreement.is_over
    scene.log.told.clear()
    scene.process.call(scene.agreement.came, N4)  # no member
    assert scene.log.told == []


def test_learner_and_stranger_have_no_vote(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    member = scene.log.membership.get(N3)
    assert member is not None
    learner = replace(member, rank=Rank.LEARNER)
    members = tuple(learner if each == member else each for each in scene.log.membership.members)
    scene.log.membership = Membership(members)
    scene.upto(EVERY)
    scene.hears(N3, EVERY, wrong="wrong")
    scene.hears(N4, EVERY, wrong="wrong")
    scene.loop.run_for(2 * DOUBT_S)
    assert (scene.log.failure, scene.agreement.counts.doubts_total) == (None, 0)
    scene.hears(N2, EVERY)
    assert scene.agreement.counts.agreed_total == 1
    scene.log.membership = Membership(members[:2])
    scene.hears(N2, EVERY)  # who is a member no more is forgotten
    assert list(scene.agreement._theirs) == [N2]


def test_learner_that_differs_from_the_voters_stops(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    members = list(scene.log.membership.members)
    members[0] = replace(members[0], rank=Rank.LEARNER)
    scene.log.membership = Membership(tuple(members))
    scene.upto(EVERY - 1)
    scene.flip()
    scene.apply(EVERY)
    scene.hears(N2, EVERY)
    with pytest.raises(Diverged):
        scene.hears(N3, EVERY)


def test_what_is_kept_is_bounded(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    far = 10 * agreement._KEPT_MAX * EVERY
    for index in range(EVERY, far, EVERY):
        scene.apply(index)
        scene.process.call(scene.agreement.heard, N2, Digests(((far + index, b"d"),)))
    assert len(scene.agreement._own) == agreement._KEPT_MAX
    assert len(scene.agreement._theirs[N2]) == agreement._KEPT_MAX
