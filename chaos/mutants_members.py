"""Known bugs of membership changes, each put back on purpose, with what finds it.

What lives here: the list. What must never live here: an import of the product.
Called by: `chaos.mutants`. Each that a seed finds names the seed; the others
need a certain schedule, or the word of one node.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_RAFT = "coordinator.raft."
_CORE = "tests/unit/test_core_members.py::"


def _seed(name: str, module: str, old: str, new: str, seed: int) -> Mutant:
    return Mutant(f"member-{name}", _RAFT + module, old, new, seed)


def _test(name: str, module: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(f"member-{name}", _RAFT + module, old, new, test)


def _script(name: str) -> str:
    return f"tests/scenarios/test_scenarios.py::test_scenario[{name}]"


MEMBERS = [
    # What is in force.
    _seed(
        "in-force-when-committed",
        "standing",
        "        index = self.log.last_index\n",
        "        index = max(self.commit, 1)\n",
        2,
    ),
    _test(
        "not-taken-back",
        "journal",
        "        self._configs.keep(index)\n",
        "",
        _script("change_is_taken_back_by_a_new_leader"),
    ),
    _seed(
        "not-found-again",
        "segments.replay",
        "                self._configs.append(entry)\n",
        "",
        0,
    ),
    _seed(
        "not-in-the-snapshot",
        "applying",
        "                self.config = entry.data\n",
        "                self.config = self.config or entry.data\n",
        4,
    ),
    _seed(
        "not-of-the-snapshot",
        "core",
        "            standing.base = decode(newest.config)\n",
        "",
        6,
    ),
    _seed(
        "snapshot-keeps-the-one-before",
        "journal",
        "        self._configs.keep(0)\n",
        "",
        40,
    ),
    # When it may be changed.
    _seed(
        "two-changes-at-once",
        "changes",
        "        if not standing.is_membership_committed:\n",
        "        if False:\n",
        2,
    ),
    _seed(
        "changed-before-an-entry-of-the-own-term",
        "changes",
        "        if not self._reads.may_be_asked:\n",
        "        if False:\n",
        2,
    ),
    _seed(
        "promoted-before-it-has-caught-up",
        "followers",
        "is_in_time and progress.match >= progress.goal",
        "is_in_time",
        4,
    ),
    _seed(
        "never-promoted",
        "changes",
        "                if not followers.has_caught_up(node):\n",
        "                if True:\n",
        2,
    ),
    _test(
        "promoted-after-a-long-round",
        "followers",
        "self.hears(peer) and is_in_time and",
        "self.hears(peer) and",
        _CORE + "test_joiner_that_takes_long_has_not_caught_up",
    ),
    _test(
        "living-one-replaced",
        "changes",
        "        if followers.hears(node):\n",
        "        if False:\n",
        _CORE + "test_member_that_answers_is_not_replaced",
    ),
    # What counts.
    _seed(
        "learner-counts",
        "membership",
        "tuple(member.node_id for member in self.members if member.votes)",
        "tuple(member.node_id for member in self.members)",
        4,
    ),
    _seed(
        "half-is-a-majority",
        "standing",
        "            quorum = len(voters) // 2 + 1\n",
        "            quorum = max(len(voters) // 2, 1)\n",
        0,
    ),
    _seed(
        "leader-counts-itself-when-removed",
        "replication",
        "        if electorate.is_voter:\n            held.append",
        "        if True:\n            held.append",
        7,
    ),
    _test(
        "vote-of-a-learner-counts",
        "election",
        "        if voter in standing.voters and voter not in self._votes:\n",
        "        if voter not in self._votes:\n",
        _CORE + "test_votes_of_learners_and_strangers_count_for_nothing",
    ),
    _test(
        "late-vote-counts-beside-a-leader",
        "election",
        "        # be of a majority by now, as the membership may have changed under that leader.\n"
        "        self._votes_term = -1\n",
        "",
        _script("late_vote_makes_no_second_leader"),
    ),
    _test(
        "answer-of-another-life-counts",
        "followers",
        "progress.incarnation == self._lives.of(peer)",
        "self._lives.of(peer) is not None",
        _CORE + "test_late_acknowledgement_of_a_replaced_life_counts_for_nothing",
    ),
    _test(
        "vote-of-another-life-counts",
        "lives",
        "member.incarnation == self._connected.get(peer)",
        "peer in self._connected",
        _CORE + "test_what_another_life_of_a_member_says_counts_for_nothing",
    ),
    # Who is heard, and who goes.
    _seed(
        "unknown-leader-unheard",
        "lives",
        "        if peer not in self._connected:\n",
        "        if not self.is_member(peer):\n",
        2,
    ),
    _seed(
        "learner-stands",
        "election",
        "        if not standing.may_stand:\n",
        "        if False:\n",
        8,
    ),
    _test(
        "removed-one-stands-back",
        "election",
        "        if not standing.may_stand:\n",
        "        if not standing.is_voter:\n",
        _script("removed_leader_may_be_needed_once_more"),
    ),
    _seed(
        "removed-one-admitted",
        "log",
        "        return self._core.standing.committed_membership.why_over(node, incarnation)\n",
        "        return None\n",
        7,
    ),
    _seed(
        "removed-one-deaf-to-a-refusal",
        "log",
        '        self._driver.fail(removed(f"{why} ({peer} says so)"))\n',
        "        pass\n",
        7,
    ),
    _test(
        "removed-one-not-told",
        "followers",
        "            self.leaving[peer] = progress\n",
        "            pass\n",
        _script("member_is_removed"),
    ),
    _test(
        "removed-leader-goes-on",
        "core",
        "        if not standing.is_voter and standing.is_membership_committed:\n",
        "        if False:\n",
        _script("leader_removes_itself"),
    ),
    _test(
        "removed-one-disturbs",
        "lives",
        "        return peer not in self._ended or (is_known and term == standing.term)\n",
        "        return True\n",
        _CORE + "test_life_that_is_over_is_heard_no_more_once_that_is_committed",
    ),
]
