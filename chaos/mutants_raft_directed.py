"""Known bugs of consensus that one certain schedule finds, and random ones hardly ever.

Each names the script or test that does. What lives here: the list. What must
never live here: an import of the product. Called by: `chaos.mutants`.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_RAFT = "coordinator.raft."


def _script(name: str) -> str:
    return f"tests/scenarios/test_scenarios.py::test_scenario[{name}]"


def _unit(name: str) -> str:
    return f"tests/unit/test_core_{name}"


_PAPER = "tests/guarantees/test_raft_paper.py::"

RAFT_DIRECTED = [
    # What is committed, and counted.
    Mutant(
        "old-term-committed-by-counting",
        _RAFT + "commit",
        "    return index if index > commit and log.term(index) == term else commit",
        "    return max(index, commit)",
        _script("t07_figure_8"),
    ),
    Mutant(
        "leader-counts-itself-before-durable",
        _RAFT + "replication",
        "            held.append(log.durable_index)\n",
        "            held.append(log.last_index)\n",
        _script("t23_nobody_counts_before_durable"),
    ),
    Mutant(
        "acknowledged-before-durable",
        _RAFT + "appending",
        "        return min(self.verified, self._standing.log.durable_index)",
        "        return self.verified",
        _script("t23_nobody_counts_before_durable"),
    ),
    Mutant(
        "acknowledged-by-index",
        _RAFT + "journal",
        "return self._tail.durable_index(self.durable)",
        "return min(self._index.last, self.last_index)",
        _script("t26_entry_replaced_while_its_write_is_under_way"),
    ),
    Mutant(
        "acknowledgement-of-an-old-term-counted",
        _RAFT + "core",
        "        elif term < standing.term:\n",
        "        elif term < standing.term and not isinstance(message, AppendReply):\n",
        _unit("doubts.py::test_acknowledgement_of_an_earlier_term_counts_for_nothing"),
    ),
    Mutant(
        "compared-in-an-earlier-term",
        _RAFT + "core",
        "        if standing.leader != leader:\n",
        "        if False:\n",
        _script("what_was_compared_in_an_earlier_term"),
    ),
    Mutant(
        "commit-index-not-verified",
        _RAFT + "appending",
        "min(message.commit, self.verified)",
        "min(message.commit, log.last_index)",
        _PAPER + "test_commit_index_follows_the_leaders_up_to_the_last_new_entry",
    ),
    Mutant(
        "truncated-always",
        _RAFT + "appending",
        "        self.verified = max(self.verified, self._take(prev, entries))\n",
        "        log.truncate(max(prev, standing.commit))\n"
        "        self.verified = max(self.verified, self._take(prev, entries))\n",
        _PAPER + "test_entries_that_are_the_same_are_not_deleted",
    ),
    Mutant(
        "committed-entry-replaced",
        _RAFT + "appending",
        "        if index <= self._standing.commit and",
        "        if False and",
        _unit("appending.py::test_append_never_takes_back_what_is_committed"),
    ),
    # Votes and terms.
    Mutant(
        "vote-forgotten-over-a-restart",
        _RAFT + "journal",
        '(vote or "").encode("ascii")',
        'b""',
        _script("t06_vote_survives_a_restart"),
    ),
    Mutant(
        "votes-counted-twice",
        _RAFT + "election",
        " and voter not in self._votes:\n",
        ":\n",
        _script("t05_doubled_votes"),
    ),
    Mutant(
        "prevotes-counted-twice",
        _RAFT + "election",
        " and voter not in self._fans:\n",
        ":\n",
        _script("t05_doubled_votes"),
    ),
    Mutant(
        "own-vote-counted-before-durable",
        _RAFT + "election",
        "        if self._is_candidacy_open and self._standing.is_hard_state_durable:\n",
        "        if self._is_candidacy_open:\n",
        _unit("election.py::test_votes_are_counted_once_and_the_own_one_when_durable"),
    ),
    Mutant(
        "vote-ignores-the-log",
        _RAFT + "election",
        "            and standing.is_up_to_date(question.last_term, question.last_index)\n"
        "        )",
        "        )",
        _PAPER + "test_voter_denies_its_vote_if_its_own_log_is_more_up_to_date",
    ),
    Mutant(
        "second-vote-in-a-term",
        _RAFT + "election",
        "            and vote in (None, asker)\n",
        "",
        _PAPER + "test_each_server_votes_for_at_most_one_candidate_in_a_term",
    ),
    Mutant(
        "sent-before-its-term-is-durable",
        _RAFT + "standing",
        "Outgoing(to, message, self._hard_state_lsn)",
        "Outgoing(to, message, 0)",
        _script("nothing_is_said_before_it_is_durable"),
    ),
    Mutant(
        "no-prevote",
        _RAFT + "election",
        "        if len(self._fans) >= standing.quorum:\n"
        "            self.begin(transfer=False)\n"
        "            return\n",
        "        self.begin(transfer=False)\n        return\n",
        _script("t10_nobody_deposes_a_healthy_leader"),
    ),
    Mutant(
        "no-stickiness",
        _RAFT + "core",
        "            if is_election and self.election.is_leader_alive:\n",
        "            if False:\n",
        _PAPER + "test_server_that_hears_its_leader_ignores_requests_for_votes",
    ),
    Mutant(
        "no-check-quorum",
        _RAFT + "core",
        "(now_ns > self._grace_ns and not self.replication.has_quorum)",
        "False",
        _PAPER + "test_leader_steps_down_if_an_election_timeout_passes_without_a_majority",
    ),
    Mutant(
        "earlier-term-not-answered",
        _RAFT + "core",
        "                standing.send(sender, AppendReply(standing.term, 0, 0, 0, 0, 0))\n",
        "                pass\n",
        _script("t27_node_of_a_higher_term_comes_back"),
    ),
    Mutant(
        "judged-at-once-after-a-stall",
        _RAFT + "core",
        "        if has_stalled and ",
        "        if False and ",
        _script("t11_pause_of_a_follower"),
    ),
    Mutant(
        "never-judged-while-slow",
        _RAFT + "core",
        "        if has_stalled and"
        " now_ns >= self._grace_ns + standing.timing.election_ms_max * MS:\n",
        "        if has_stalled:\n",
        _unit("events.py::test_node_that_is_always_slow_judges_all_the_same"),
    ),
    Mutant(
        "broken-link-not-noticed",
        _RAFT + "core",
        "            self.election.link_broke(peer)\n",
        "",
        _script("failover_is_fast"),
    ),
    Mutant(
        "stranger-heard",
        _RAFT + "core",
        "        if not self.lives.is_heard(sender, term, self._leaving):\n            return\n",
        "",
        _script("t20_stranger_changes_nothing"),
    ),
    # Reads and transfers.
    Mutant(
        "read-before-an-entry-of-the-own-term",
        _RAFT + "reads",
        "        return standing.log.term(standing.commit) == standing.term",
        "        return True",
        _script("t24_reads"),
    ),
    Mutant(
        "read-without-a-round",
        _RAFT + "core",
        "        self.reads.ask(self.replication.round + 1, answer)\n",
        "        answer(standing.commit)\n",
        _script("t24_reads"),
    ),
    Mutant(
        "read-answered-by-an-older-round",
        _RAFT + "reads",
        "        ready = [read for read in self._waiting if read.round <= round_]\n"
        "        self._waiting = [read for read in self._waiting if read.round > round_]\n",
        "        ready = [read for read in self._waiting if read.round <= round_ + 1]\n"
        "        self._waiting = [read for read in self._waiting if read.round > round_ + 1]\n",
        _unit("leading.py::test_reads_wait_for_a_round_that_began_later"),
    ),
    Mutant(
        "proposals-during-a-transfer",
        _RAFT + "core",
        "        if self.transfer.heir is not None or not standing.is_voter:\n",
        "        if False:\n",
        _script("transfer_of_leadership"),
    ),
    Mutant(
        "transfer-never-ends",
        _RAFT + "transfer",
        "        if self.heir is not None and self._standing.now_ns >= self.deadline_ns:\n",
        "        if False:\n",
        _unit("leading.py::test_transfer_is_given_up_after_a_while"),
    ),
    Mutant(
        "silent-while-entries-are-under-way",
        _RAFT + "replication",
        "            elif progress.is_connected and progress.has_bulk_under_way:\n",
        "            elif False:\n",
        _unit("leading.py::test_heartbeat_overtakes_entries_that_are_under_way"),
    ),
    Mutant(
        "answer-of-the-past-ends-the-probe",
        _RAFT + "progress",
        "        if self.feeding is Feeding.PROBE and match >= self.next - 1:\n",
        "        if self.feeding is Feeding.PROBE:\n",
        _unit("progress.py::test_progress_leaves_probe_where_the_follower_is"),
    ),
    Mutant(
        "swamped-for-ever",
        _RAFT + "appending",
        "        self._is_swamped = False\n        if",
        "        if",
        _unit("appending.py::test_follower_whose_disk_is_behind_asks_again_as_soon_as_it_moves"),
    ),
    Mutant(
        "definite-answer-too-early",
        _RAFT + "proposals",
        "            overtaken.resolve(OutcomeUnknown(reason))\n",
        "            overtaken.resolve(_replaced(overtaken))\n",
        _unit("log.py::test_proposal_whose_place_is_taken_here_may_still_be_committed"),
    ),
    # Snapshots.
    Mutant(
        "old-snapshot-accepted",
        _RAFT + "core",
        "                if message.index <= standing.commit:\n",
        "                if False:\n",
        _unit("leading.py::test_old_snapshot_is_answered_with_what_is_committed"),
    ),
    Mutant(
        "overtaken-snapshot-installed",
        _RAFT + "core",
        "        if index > standing.commit:\n            newest",
        "        if True:\n            newest",
        _unit("leading.py::test_snapshot_that_was_overtaken_is_not_installed"),
    ),
    Mutant(
        "conflicting-suffix-kept-behind-a-snapshot",
        _RAFT + "core",
        "            if log.term(index) != term:\n",
        "            if index > log.last_index:\n",
        _script("t01_snapshot_never_commits_a_conflicting_suffix"),
    ),
    Mutant(
        "snapshot-installed-before-it-is-whole",
        _RAFT + "receiving",
        "            if self._offset >= message.size:\n",
        "            if True:\n",
        _script("t09_pieces_of_a_snapshot_are_lost_and_doubled"),
    ),
    Mutant(
        "piece-for-every-answer",
        _RAFT + "progress",
        "        if offset != self.offset or is_lost:\n",
        "        if True:\n",
        _script("transfer_of_a_snapshot_is_no_storm"),
    ),
    # Feeding.
    Mutant(
        "back-off-by-one",
        _RAFT + "parting",
        "    while low < high:\n",
        "    while False:\n",
        _script("t16_back_off_by_whole_terms"),
    ),
    Mutant(
        "window-ignored",
        _RAFT + "replication",
        "            and progress.in_flight_bytes < window.in_flight_bytes_max\n",
        "",
        _script("t17_window"),
    ),
    Mutant(
        "every-read-goes-on",
        _RAFT + "replication",
        "            if self._is_over or progress.reading is not reading:\n",
        "            if self._is_over:\n",
        _unit("doubts.py::test_entries_read_for_an_earlier_connection_are_not_sent"),
    ),
    Mutant(
        "late-vote-leads-a-term-twice",
        _RAFT + "election",
        "        self._votes_term = -1  # a late vote lets nobody lead a term twice\n",
        "",
        _unit("doubts.py::test_late_vote_lets_nobody_lead_a_term_twice"),
    ),
    Mutant(
        "round-of-another-term-answered",
        _RAFT + "receiving",
        "message.round if message.term == standing.term else 0",
        "message.round",
        _unit("doubts.py::test_round_of_one_leader_is_not_answered_to_the_next"),
    ),
    Mutant(
        "round-never-asked-believed",
        _RAFT + "replication",
        "        if round_ > self.round:\n",
        "        if False:\n",
        _unit("doubts.py::test_round_that_was_never_asked_proves_no_read"),
    ),
    Mutant(
        "piece-for-every-heartbeat-to-a-full-disk",
        _RAFT + "receiving",
        "if self._is_busy or self._standing.now_ns < self._full_until_ns:",
        "if self._is_busy:",
        _unit("doubts.py::test_snapshot_that_does_not_fit_is_asked_for_seldom"),
    ),
    Mutant(
        "led-by-a-disk-that-hangs",
        _RAFT + "fitness",
        "        return now_ns - self._moved_ns < self._hung_ns\n",
        "        return True\n",
        _unit("log.py::test_leader_whose_disk_hangs_lets_another_lead"),
    ),
    Mutant(
        "uncommitted-without-bound",
        _RAFT + "uncommitted",
        "        if self.bytes and self.bytes + record_bytes(data_bytes) > self._bytes_max:\n",
        "        if False:\n",
        _unit("doubts.py::test_leader_whose_entries_no_majority_takes_refuses_more"),
    ),
    Mutant(
        "silent-over-a-new-connection",
        _RAFT + "appending",
        "        self._answered = -1\n",
        "        pass\n",
        _unit("appending.py::test_leader_that_asks_is_answered_though_nothing_is_new"),
    ),
    Mutant(
        "everything-answered",
        _RAFT + "appending",
        "        if asks or message.round",
        "        if True or message.round",
        _unit(
            "appending.py::test_entries_are_answered_when_they_are_durable_and_news_of_a_commit_never"
        ),
    ),
    Mutant(
        "stale-refusal-followed",
        _RAFT + "progress",
        "        elif self.feeding is Feeding.PROBE and index == self.next - 1:\n",
        "        elif self.feeding is Feeding.PROBE:\n",
        _unit("progress.py::test_progress_ignores_a_refusal_that_is_old"),
    ),
    Mutant(
        "sent-again-and-again-to-a-full-disk",
        _RAFT + "appending",
        "        if self._is_swamped or standing.now_ns < self._full_until_ns:\n",
        "        if False:\n",
        _unit("appending.py::test_follower_without_room_asks_for_nothing_for_a_while"),
    ),
]
