"""Known bugs of the shells around the core, and of the whole: a seed or a test finds each.

The seeds are of suite `scheduler`. What lives here: the list. What must never live
here: an import of the product. Called by: `chaos.mutants`.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_NODE = "coordinator."
_CORE = "coordinator.core."


def _by(name: str) -> str:
    return f"tests/unit/test_{name}"


SCHEDULER = [
    # The replica.
    Mutant(
        "replica-skips-an-entry",
        _NODE + "replica",
        "        if not entry.data or entry.is_config:\n",
        "        if not entry.data or entry.is_config or (\n"
        "            entry.index % 16 == 0 and self.listeners[0].now_ms() % 3 == 0\n"
        "        ):\n",
        0,
    ),
    Mutant(
        "replica-tells-before-it-applies",
        _NODE + "replica",
        "        done = apply(self.state, entry.index, entry.term, decoded)\n",
        "        done = Applied((), ())\n"
        "        for listener in self.listeners[-1:]:\n"
        "            listener.applied(entry.index, entry.term, decoded, done)\n"
        "        done = apply(self.state, entry.index, entry.term, decoded)\n",
        0,
    ),
    Mutant(
        "replica-stays-behind-its-snapshot",
        _NODE + "replica",
        "        before, self.state, self.index = self.state, state, snapshot.index\n",
        "        before, self.index = State(), snapshot.index\n",
        1,
    ),
    Mutant(
        "capture-taken-when-it-is-read",
        _NODE + "replica",
        "        return _Captured(Capture(self.state), asyncio.get_running_loop())\n",
        "        return (chunk for _ in (1,) for chunk in Capture(self.state).chunks())\n",
        18,
    ),
    Mutant(
        "snapshot-without-a-table",
        _CORE + "snapshot",
        "            for key in ordered(table):\n",
        '            for key in ordered(table) if name != "executors" else ():\n',
        1,
    ),
    Mutant(
        "snapshot-without-a-number-of-little-use",
        _CORE + "snapshot",
        "state.rate_ended, state.drained_per_s = values[14:]\n",
        "state.rate_ended, _ = values[14:]\n",
        3,
    ),
    # Log time.
    Mutant(
        "log-time-stands-still",
        _NODE + "log_clock",
        "        return max(self._now_ns() // MS, 1)",
        "        return max(self._base_ms, 1)",
        0,
    ),
    Mutant(
        "log-time-passes-twice-as-fast",
        _NODE + "log_clock",
        "        found = self._base_ms * MS + now_ns - self._base_ns\n",
        "        found = self._base_ms * MS + (now_ns - self._base_ns) * 2\n",
        8,
    ),
    Mutant(
        "log-time-counted-anew-from-own-entries",
        _NODE + "log_clock",
        "        self._term = term\n",
        "        pass\n",
        _by("log_clock.py::test_leader_counts_on_by_its_own_clock_and_loses_nothing_by_rounding"),
    ),
    Mutant(
        "gap-of-a-restart-not-clamped",
        _NODE + "log_clock",
        "min(gap.gap_ms, state.policy.log_time_gap_ms_max)",
        "gap.gap_ms",
        _by("log_clock.py::test_restart_counts_no_more_than_the_policy_allows_and_never_back"),
    ),
    Mutant(
        "gap-of-a-restart-counted-before-a-policy-is-known",
        _NODE + "log_clock",
        "        if gap is None or not state.term:\n",
        "        if gap is None:\n",
        _by("log_clock.py::test_restart_counts_nothing_before_a_policy_is_known"),
    ),
    # The leader.
    Mutant(
        "duplicate-of-what-is-in-flight-told-as-undone",
        _NODE + "leader",
        "                sent.group.joined = current.inbox.landed(sent.group)\n",
        "                pass\n",
        _by("leader_twins.py"),
    ),
    Mutant(
        "decides-before-its-lead-is-applied",
        _NODE + "leadership",
        "        self._unsent = Sent(self.term, None, Group(), encode_entry(entry))\n"
        "        self._send()\n",
        "        self._unsent = Sent(self.term, None, Group(), encode_entry(entry))\n"
        "        self._send()\n"
        "        self._build()\n",
        0,
    ),
    Mutant(
        "answers-before-it-is-committed",
        _NODE + "leader",
        "        key = proposal.term, proposal.index\n",
        "        for ask in sent.group.admitting:\n"
        "            ask.done(Landed(proposal.index, Verdict.OK, '', proposal.index))\n"
        "        sent.group.admitting.clear()\n"
        "        key = proposal.term, proposal.index\n",
        0,
    ),
    Mutant(
        "entry-told-by-its-index-alone",
        _NODE + "leader",
        "        found = self._sent.pop((term, index), None)\n",
        "        keys = [each for each in self._sent if each[1] == index]\n"
        "        found = self._sent.pop(keys[0]) if keys else None\n",
        _by("leader_drawn.py::test_drawn_history_of_a_leader[17]"),
    ),
    Mutant(
        "asker-not-told-of-a-failure",
        _NODE + "leader",
        "        if not isinstance(error, RaftbatchError):\n"
        '            error = OutcomeUnknown(f"this node cannot say what became of it: {error}")\n'
        "        sent.group.failed(error)\n",
        "",
        _by("leader_drawn.py::test_drawn_history_of_a_leader[0]"),
    ),
    Mutant(
        "unknown-told-as-definite",
        "coordinator.raft.proposals",
        "            overtaken.resolve(OutcomeUnknown(reason))\n",
        "            overtaken.resolve(NotLeader(reason))\n",
        _by("leader_terms.py::test_entry_is_unknown_where_this_node_took_it_back_and_leads_again"),
    ),
    Mutant(
        "deposed-leader-tells-what-it-had-sent-as-undone",
        _NODE + "leader",
        "        current, self._current = self._current, None\n",
        "        current, self._current = self._current, None\n"
        "        for each, _ in self._sent.values():\n"
        "            each.group.failed(error)\n"
        "        self._sent.clear()\n",
        0,
    ),
    Mutant(
        "second-request-of-an-id-not-compared-with-the-first",
        _NODE + "leader",
        "            verdict, ticket = answer_known(state, known, admission.content_hash)\n",
        "            found = state.requests[known] if known >= 0 else state.ended[~known]\n"
        "            verdict, ticket = answer_known(state, known, found.content_hash)\n",
        0,
    ),
    Mutant(
        "leases-not-begun-by-a-new-leader",
        _NODE + "leadership",
        "        self._leases.begin(sorted(live), self._parts.clock.monotonic_ns())\n",
        "",
        0,
    ),
    Mutant(
        "executors-judged-after-a-stall",
        _NODE + "leases",
        "        if due_ns is not None and now_ns > due_ns + tick_ns:\n",
        "        if False:\n",
        _by("leases.py::test_nobody_is_judged_by_a_node_that_stood_still"),
    ),
    Mutant(
        "joined-executor-has-no-lease",
        _NODE + "leadership",
        "                case ExecutorChanged(executor, incarnation, Change.JOINED):\n"
        "                    self._leases.renew(executor, incarnation, now_ns)\n",
        "",
        24,
    ),
    Mutant(
        "stale-outlook-not-built-anew",
        _NODE + "leadership",
        "                if not self._in_flight:\n                    self._build()\n",
        "",
        _by("leader_refused.py"),
    ),
    Mutant(
        "more-in-flight-than-may-be",
        _NODE + "leadership",
        "self._in_flight < self._config.entries_inflight_max:\n",
        "self._in_flight < 100:\n",
        _by("leader.py::test_no_more_entries_are_in_flight_than_may_be"),
    ),
    Mutant(
        "what-waits-for-an-entry-not-counted",
        _NODE + "refusing",
        "admission.traceparent), inbox.uses, 1, names\n",
        "admission.traceparent), {}, 1, names\n",
        _by("leader.py::test_limit_of_n_means_that_n_are_accepted_and_the_next_refused"),
    ),
    Mutant(
        "requests-told-in-another-order",
        _NODE + "proposer",
        "                group.admitting.append(ask)\n",
        "                group.admitting.insert(0, ask)\n",
        3,
    ),
    Mutant(
        "replies-told-one-place-off",
        _NODE + "proposer",
        "        if self.admitting:\n            first = 1\n",
        "        if self.admitting:\n",
        3,
    ),
    # The outlook.
    Mutant(
        "batch-in-flight-decided-about-again",
        _CORE + "outlook",
        "        if key is None or number in self.flying.busy or",
        "        if key is None or",
        0,
    ),
    Mutant(
        "sealed-request-in-flight-left-in-its-window",
        _CORE + "outlook",
        "        if view is not None and number not in self.flying.taken:\n",
        "        if view is not None:\n",
        3,
    ),
    Mutant(
        "numbers-in-flight-not-counted",
        _CORE + "outlook",
        "max(self.next_request, record.first + len(record.request_id))",
        "max(self.next_request, record.first)",
        0,
    ),
    # What the core lets in.
    Mutant(
        "outcome-forgotten-before-its-retention-is-over",
        _CORE + "retention",
        "        if outcome.at_ms + policy.outcome_retention_ms > state.now_ms:\n",
        "        if outcome.at_ms + policy.outcome_retention_ms // 2 > state.now_ms:\n",
        3,
    ),
    Mutant(
        "deadlines-looked-at-late",
        _CORE + "timers",
        "_GRAIN_BITS = 8\n",
        "_GRAIN_BITS = 0\n",
        23,
    ),
    # The feed.
    Mutant(
        "feed-forgets-a-lapse",
        _NODE + "feed",
        "            if isinstance(effect, _OF_EXECUTORS):\n",
        "            if isinstance(effect, _OF_EXECUTORS) and not isinstance(effect, Revoked):\n",
        6,
    ),
    Mutant(
        "feed-forgets-an-assignment",
        _NODE + "feed",
        "            if isinstance(effect, _OF_EXECUTORS):\n",
        "            if isinstance(effect, _OF_EXECUTORS) and not isinstance(effect, Placed):\n",
        0,
    ),
    Mutant(
        "feed-sends-an-old-fence",
        _NODE + "feed_messages",
        "        batch.fence,\n        batch.key,\n",
        "        batch.fence - (batch.assigned > 1),\n        batch.key,\n",
        0,
    ),
    Mutant(
        "feed-sends-rows-that-have-ended",
        _NODE + "feed_messages",
        "    found = [state.requests[each] for each in batch.members if each in state.requests]\n",
        "    last = next(each for each in batch.members if each in state.requests)\n"
        "    found = [\n"
        "        state.requests.get(each, state.requests[last]._replace(number=each))\n"
        "        for each in batch.members\n"
        "    ]\n",
        0,
    ),
    Mutant(
        "feed-tells-no-other-fence-of-a-batch",
        _NODE + "tail",
        "            if assigned.get(batch) != run.fence:\n",
        "            if batch not in assigned:\n",
        _by("feed.py::test_batch_that_lapsed_and_was_assigned_again_between_two_reads"),
    ),
    Mutant(
        "feed-of-a-node-that-is-behind",
        _NODE + "feed",
        "        if self._replica.index < needed and not await",
        "        if False and not await",
        1,
    ),
    Mutant(
        "feed-keeps-what-is-over",
        _NODE + "tail",
        "            if assigned.get(batch) != fence:\n",
        "            if batch not in assigned:\n",
        _by("feed.py::test_current_set_is_held_against_what_the_executor_says"),
    ),
    Mutant(
        "feed-not-looked-at-after-a-snapshot",
        _NODE + "feed",
        "        for tail in self._tails.values():\n            tail.mark_all()\n",
        "",
        _by("feed.py::test_after_a_snapshot_the_next_message_is_what_is_different"),
    ),
    Mutant(
        "lapsed-slot-not-told-to-an-executor-that-never-heard-of-it",
        _NODE + "tail",
        "        stop += [Stop(*key, None) for key in lapsed if key not in self._stops]\n",
        "",
        _by("feed.py::test_what_was_never_heard_of_is_stopped_too_since_its_slot_returns_only_so"),
    ),
    # The api.
    Mutant(
        "unknown-without-a-barrier",
        _NODE + "api_requests",
        "        elif not index:\n",
        "        elif False:\n",
        32,
    ),
    Mutant(
        "unknown-before-the-tickets-index",
        _NODE + "api_requests",
        "        if index > self._replica.index:\n",
        "        if False:\n",
        0,
    ),
    Mutant(
        "known-id-with-other-content-answered",
        _NODE + "api_requests",
        "        is_same = verdict in (Verdict.KNOWN, Verdict.ENDED)\n",
        "        is_same = verdict is not Verdict.OUTCOME_FORGOTTEN\n"
        "        found = state.requests[known] if known >= 0 else state.ended[~known]\n"
        "        ticket = found.ticket\n",
        1,
    ),
    Mutant(
        "ticket-of-the-second-entry",
        _NODE + "submitting",
        "                self.answer(place, Ticket(request_id, result.value))\n",
        "                self.answer(place, Ticket(request_id, result.index))\n",
        3,
    ),
    Mutant(
        "cancel-answered-by-its-place-in-another",
        _NODE + "api_names",
        "        for place, number in enumerate(landed.verdicts):\n",
        "        for place, number in enumerate(bytes(len(landed.verdicts))):\n",
        2,
    ),
    Mutant(
        "wait-not-looked-at-after-a-snapshot",
        _NODE + "waits",
        '            if not isinstance(state.request(*name.split("\\0", 1)), Request)\n',
        "            if False\n",
        _by("waits.py::test_after_a_snapshot_every_wait_is_looked_up_again"),
    ),
    Mutant(
        "current-report-refused-by-a-node-that-is-behind",
        _NODE + "api_executors",
        "        if report.fence > state.index:\n            return\n",
        "",
        _by("api_executors.py::test_report_of_what_is_not_known_yet_is_the_leaders_to_judge"),
    ),
]
