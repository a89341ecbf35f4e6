"""Known bugs of how replicas compare digests: a seed of suite `diverging` or a test finds each.

What lives here: the list. What must never live here: an import of the product. Called
by: `chaos.mutants`.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_AGREEMENT = "coordinator.agreement"


def _by(name: str) -> str:
    return f"tests/unit/test_agreement.py::test_{name}"


DIVERGING = [
    Mutant(
        "replica-that-differs-goes-on",
        _AGREEMENT,
        "        if count >= quorum and most != own:\n",
        "        if False:\n",
        1,
    ),
    Mutant(
        "digests-told-to-nobody",
        _AGREEMENT,
        "                self._log.tell(member.node_id, told)\n",
        "                pass\n",
        1,
    ),
    Mutant(
        "digests-of-others-not-heard",
        "coordinator.raft.driver",
        "        if self.on_digests is not None and self.core.lives.is_member(peer):\n",
        "        if False:\n",
        1,
    ),
    Mutant(
        "replica-that-is-right-stops",
        _AGREEMENT,
        "        elif others and count + len(voters) - len(votes) < quorum:\n",
        "        elif others:\n",
        0,
    ),
    Mutant(
        "leader-that-erred-answers-on",
        _AGREEMENT,
        "        self._retire()\n",
        "        pass\n",
        3,
    ),
    Mutant(
        "leader-that-erred-goes-on-when-it-has-handed-over",
        _AGREEMENT,
        "                        break\n",
        "                        return\n",
        2,
    ),
    Mutant(
        "milestones-where-a-node-began-to-count",
        _AGREEMENT,
        "        if self.is_over or index // EVERY == before // EVERY:\n",
        "        self._seen = getattr(self, '_seen', 0) + 1\n"
        "        if self.is_over or self._seen % EVERY:\n",
        _by("milestones_are_where_the_log_says_and_told_to_all_members"),
    ),
    Mutant(
        "milestones-of-before-a-snapshot-kept",
        _AGREEMENT,
        "        self._last = self._replica.state.index\n        self._own.clear()\n",
        "        self._own.clear()\n",
        _by("snapshot_ends_a_doubt"),
    ),
    Mutant(
        "digests-of-a-life-that-is-over-counted",
        _AGREEMENT,
        "        self._theirs.pop(peer, None)\n",
        "",
        _by("member_that_comes_is_told_the_last_milestones_and_begins_anew"),
    ),
    Mutant(
        "digest-of-a-learner-counted",
        _AGREEMENT,
        " for node, digest in told.items() if node in voters}",
        " for node, digest in told.items()}",
        _by("learner_and_stranger_have_no_vote"),
    ),
    Mutant(
        "difference-forgotten-where-the-others-are-silent",
        _AGREEMENT,
        "            self._begin_doubt(index, told)\n",
        "            pass\n",
        _by("silent_voter_has_some_time_to_decide"),
    ),
    Mutant(
        "doubt-that-was-answered-stops-the-node",
        _AGREEMENT,
        "                self._end_doubt()\n",
        "                pass\n",
        _by("silent_voter_has_some_time_to_decide"),
    ),
    Mutant(
        "doubt-answered-by-what-was-before-it",
        _AGREEMENT,
        "            if index >= self._doubted_index:\n",
        "            if True:\n",
        _by("doubt_is_not_answered_by_an_earlier_milestone"),
    ),
    Mutant(
        "doubt-where-a-later-milestone-has-answered",
        _AGREEMENT,
        "        elif count >= quorum or index <= self._agreed_index:\n",
        "        elif count >= quorum:\n",
        _by("later_milestone_vouches_for_those_before_it"),
    ),
    Mutant(
        "leadership-handed-to-one-that-erred-too",
        _AGREEMENT,
        "            if right in self._theirs.get(node, {}).values()\n",
        "",
        _by("leader_that_erred_hands_over_to_one_that_is_right"),
    ),
]
