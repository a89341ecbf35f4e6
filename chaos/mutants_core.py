"""Known bugs of the pure core: each breaks one rule, and a test finds it.

The killers are tables, directed scenarios and drawn runs over the core alone. What
lives here: the list. What must never live here: an import of the product. Called
by: `chaos.mutants`.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_CORE = "coordinator.core."


def _by(name: str) -> str:
    return f"tests/unit/core/test_{name}"


_ADMISSION = "admission.py::test_"
_BATCHES = "batches.py::test_"
_REPORTS = "reports.py::test_"
_EXECUTORS = "executors.py::test_"
_RETENTION = "retention.py::test_"
_MODELS = "models.py::test_"
_DECIDE = "decide.py::test_"
_HALVES = "half_of_several_splits_at_its_first_failure_and_one_alone_has_all_attempts"
_LEADING = "drawn_leading.py"
_DRAWN = "drawn.py::test_"

CORE = [
    # Admission.
    Mutant(
        "dedupe-off",
        _CORE + "admission",
        "        if len(set(self._names)) < count or not",
        "        if False and not",
        _by(_ADMISSION + "admit_takes_a_request_once"),
    ),
    Mutant(
        "content-not-compared",
        _CORE + "admission",
        "        same = request.content_hash == content_hash\n",
        "        same = True\n",
        _by(_ADMISSION + "same_id_with_other_content_is_a_conflict"),
    ),
    Mutant(
        "one-more-than-the-limit",
        _CORE + "usage",
        "            self.requests + requests <= self.requests_max\n",
        "            self.requests + requests <= self.requests_max + 1\n",
        _by(_ADMISSION + "limit_of_three_takes_three_and_refuses_the_next"),
    ),
    Mutant(
        "rows-not-counted-in-limits",
        _CORE + "usage",
        "            and self.rows + rows <= self.rows_max\n",
        "",
        _by(_ADMISSION + "limit_of_three_takes_three_and_refuses_the_next"),
    ),
    Mutant(
        "row-too-many-admitted",
        _CORE + "admission",
        "    if rows > model.rows_max:\n",
        "    if rows > model.rows_max + 1:\n",
        _by(_ADMISSION + "request_that_can_never_run_is_refused_with_the_limit"),
    ),
    Mutant(
        "request-numbers-reused",
        _CORE + "admission",
        "    if not state.next_request <= first <=",
        "    if not 1 <= first <=",
        _by(_ADMISSION + "numbers_only_rise"),
    ),
    Mutant(
        "cancel-of-unknown-id-forgotten",
        _CORE + "retention",
        "            answers[place] = _remember(state, tenant, name)\n",
        "            answers[place] = Verdict.UNKNOWN_REQUEST\n",
        _by(_ADMISSION + "cancel_that_comes_first_meets_the_request"),
    ),
    # Batches.
    Mutant(
        "batch-with-a-row-too-many",
        _CORE + "batches",
        "    if rows > model.rows_max or size",
        "    if rows > model.rows_max + 2 or size",
        _by(_BATCHES + "seal_holds_no_more_than_a_batch_may"),
    ),
    Mutant(
        "keys-mixed",
        _CORE + "batches",
        "        if request is not None and request.key == key and request",
        "        if request is not None and request",
        _by(_BATCHES + "seal_never_mixes_keys"),
    ),
    Mutant(
        "sealed-twice",
        _CORE + "batches",
        " and request.number not in batch_of\n",
        "\n",
        _by(_BATCHES + "seal_takes_no_request_twice"),
    ),
    Mutant(
        "late-request-assigned",
        _CORE + "batches",
        "        and 0 < request.deadline_ms <= state.now_ms\n",
        "        and False\n",
        _by(_BATCHES + "seal_and_assign_drop_requests_that_are_past_their_deadline"),
    ),
    Mutant(
        "lapse-without-attempt",
        _CORE + "batches",
        "        assigned=record.attempt,\n",
        "        assigned=batch.assigned,\n",
        _by(_REPORTS + "report_that_is_not_of_the_current_attempt_changes_nothing"),
    ),
    Mutant(
        "attempt-not-a-precondition",
        _CORE + "batches",
        "    if batch.assigned + 1 != record.attempt:\n",
        "    if False:\n",
        _by(_BATCHES + "assign_is_refused_where_anything_has_changed"),
    ),
    Mutant(
        "backoff-ignored",
        _CORE + "batches",
        "    if batch.not_before_ms > state.now_ms:\n",
        "    if False:\n",
        _by(_BATCHES + "backoff_grows_to_its_most_and_holds_no_slot"),
    ),
    Mutant(
        "death-always-a-failure",
        _CORE + "batches",
        "    has_failed = ran is Ran.YES and",
        "    has_failed = ran is not Ran.NO and",
        _by(_BATCHES + "lapse_counts_by_its_reason_and_whether_it_ran"),
    ),
    Mutant(
        "failed-executor-not-excluded",
        _CORE + "batches",
        "        excluded = (*excluded, batch.executor)\n",
        "        pass\n",
        _by(_BATCHES + "lapse_counts_by_its_reason_and_whether_it_ran"),
    ),
    Mutant(
        "lapsed-slot-returned-at-once",
        _CORE + "slots",
        "            if not stopped or (each",
        "            if (each",
        _by(_BATCHES + "slot_of_a_lapse_returns_when_the_executor_says_that_it_stopped"),
    ),
    Mutant(
        "assignments-never-exhaust",
        _CORE + "values",
        "self.failed >= self.attempts_max or self.assigned >= self.assigned_max\n",
        "self.failed >= self.attempts_max\n",
        _by(_BATCHES + "batch_is_exhausted_by_failures_or_by_attempts"),
    ),
    Mutant(
        "bisected-out-of-order",
        _CORE + "batches",
        "    left = sorted([number for number in batch.members if number in state.requests])\n",
        "    left = [number for number in batch.members if number in state.requests]\n",
        _by(_BATCHES + "bisect_halves_in_log_order"),
    ),
    Mutant(
        "half-of-several-with-all-attempts",
        _CORE + "batches",
        "attempts_max=batch.attempts_single_max if single else 1,",
        "attempts_max=batch.attempts_single_max,",
        _by(
            _BATCHES + "half_of_several_splits_at_its_first_failure_and_one_alone_has_all_attempts"
        ),
    ),
    # Reports.
    Mutant(
        "fence-not-checked",
        _CORE + "batches",
        "    return bool(batch.executor) and batch.fence == fence and batch.assigned == attempt\n",
        "    return bool(batch.executor) and batch.assigned == attempt\n",
        _by(_REPORTS + "report_that_is_not_of_the_current_attempt_changes_nothing"),
    ),
    Mutant(
        "foreign-report-taken",
        _CORE + "reports",
        "        or batch.executor != record.executor\n",
        "",
        _by(_REPORTS + "report_that_is_not_of_the_current_attempt_changes_nothing"),
    ),
    Mutant(
        "slot-freed-with-the-first-part",
        _CORE + "reports",
        "    if not record.last:\n",
        "    if not record.last and not ended:\n",
        _by(_REPORTS + "report_in_parts_frees_the_slot_with_the_last"),
    ),
    Mutant(
        "requests-of-other-batches-ended",
        _CORE + "reports",
        "    if not frozenset(batch.members).issuperset(record.numbers):\n",
        "    if False:\n",
        _by(_REPORTS + "report_about_requests_of_another_batch_is_refused"),
    ),
    Mutant(
        "unreported-requests-left-open",
        _CORE + "reports",
        "        ended += _end_the_rest(state, batch)\n",
        "        pass\n",
        _by(_REPORTS + "whole_report_leaves_no_request_without_an_outcome"),
    ),
    # Executors, models, time.
    Mutant(
        "restarted-executor-keeps-its-assignments",
        _CORE + "executors",
        "        _end_incarnation(state, live, True, (), effects)\n",
        "",
        _by(_EXECUTORS + "restarted_executor_has_its_assignments_lapsed_at_once"),
    ),
    Mutant(
        "drained-executor-gets-new-batches",
        _CORE + "values",
        "        return not self.is_draining and not self.is_suspended\n",
        "        return not self.is_suspended\n",
        _by(_EXECUTORS + "drained_executor_finishes_what_it_runs_and_gets_nothing_new"),
    ),
    Mutant(
        "halves-suspend-an-executor",
        _CORE + "batches",
        "            note_failure(state, executor.executor, batch.root, effects)\n",
        "            note_failure(state, executor.executor, batch.number, effects)\n",
        _by(_EXECUTORS + "one_batch_that_fails_again_and_again_suspends_nobody"),
    ),
    Mutant(
        "deleted-model-run-again",
        _CORE + "models",
        "            if not batch.executor:\n",
        "            if False:\n",
        _by(_MODELS + "deleted_version_is_not_run_again"),
    ),
    Mutant(
        "deposed-leader-obeyed",
        _CORE + "apply",
        "    if entry.term != term or (",
        "    if (",
        _by(_MODELS + "what_a_deposed_leader_proposes_is_refused"),
    ),
    Mutant(
        "time-goes-back",
        _CORE + "retention",
        "    state.now_ms = max(state.now_ms, min(at_ms, LOG_TIME_MS_MAX))\n",
        "    state.now_ms = min(at_ms, LOG_TIME_MS_MAX)\n",
        _by(_RETENTION + "log_time_never_goes_back_and_leaves_room_for_deadlines"),
    ),
    Mutant(
        "outcome-forgotten-early",
        _CORE + "retention",
        "        if outcome.at_ms + policy.outcome_retention_ms > state.now_ms:\n",
        "        if outcome.at_ms + policy.outcome_retention_ms > state.now_ms + 1:\n",
        _by(_RETENTION + "outcome_is_kept_for_its_retention_and_the_id_for_longer"),
    ),
    Mutant(
        "id-forgotten-with-its-outcome",
        _CORE + "retention",
        "        if outcome.at_ms + policy.dedupe_retention_ms > state.now_ms:\n",
        "        if outcome.at_ms + policy.outcome_retention_ms > state.now_ms:\n",
        _by(_RETENTION + "outcome_is_kept_for_its_retention_and_the_id_for_longer"),
    ),
    Mutant(
        "due-again-after-a-restore-not-looked-at",
        _CORE + "retention",
        "    state.now_ms = max(state.now_ms, min(at_ms, LOG_TIME_MS_MAX))\n",
        "    if at_ms <= state.now_ms:\n"
        "        return\n"
        "    state.now_ms = min(at_ms, LOG_TIME_MS_MAX)\n",
        _by("snapshot.py::test_what_is_due_again_after_restoring_ends_with_the_next_entry"),
    ),
    Mutant(
        "captured-table-written-to",
        _CORE + "table",
        "        if self.is_held:\n            return self\n",
        "",
        _by(_DRAWN + "replicas_agree_wherever_one_was_restored"),
    ),
    # The leader.
    Mutant(
        "priority-never-rises",
        _CORE + "windows",
        "        priority = max(0, priority - (at_ms - head.at_ms) // aging_ms)\n",
        "        pass\n",
        _by(_DECIDE + "nothing_starves_whatever_comes_with_more_priority"),
    ),
    Mutant(
        "overtaken-in-a-batch",
        _CORE + "windows",
        "    return priority, lane[0], head\n",
        "    return priority, -lane[0], head\n",
        _by(_DECIDE + "batch_takes_effective_priority_then_log_order"),
    ),
    Mutant(
        "slot-in-flight-taken-twice",
        _CORE + "flights",
        "        view.free, view.rows = executor.free_slots - slots.taken, rows\n",
        "        view.free, view.rows = executor.free_slots, rows\n",
        _by(_LEADING),
    ),
    Mutant(
        "lapse-in-flight-foreseen-as-free",
        _CORE + "flights",
        "            and record.batch not in self.busy\n",
        "",
        _by(_LEADING),
    ),
    Mutant(
        "suspension-not-expected",
        _CORE + "flights",
        "                    self._close(batch.executor, flight)\n",
        "                    pass\n",
        _by(_DECIDE + "executor_that_a_failure_in_flight_may_suspend_gets_nothing_meanwhile"),
    ),
    Mutant(
        "cancel-answered-before-those-before-it-have-ended",
        _CORE + "retention",
        "        if ending:  # what comes now is answered by what those before it have left\n",
        "        if False:\n",
        _by(_RETENTION + "cancel_of_many_does_what_cancels_of_one_after_the_other_do"),
    ),
    Mutant(
        "cancelled-together-left-in-their-batch",
        _CORE + "ending",
        "            leave_batch(state, state.batches[batch], (request,), effects)\n",
        "            pass\n",
        _by(_RETENTION + "cancel_of_many_does_what_cancels_of_one_after_the_other_do"),
    ),
    Mutant(
        "due-in-the-order-of-timeouts",
        _CORE + "timers",
        "            self.due.extend(sorted(self._buckets.pop(heappop(self._heap))))\n",
        "            self.due.extend(self._buckets.pop(heappop(self._heap)))\n",
        _by(_DRAWN + "replicas_agree_wherever_one_was_restored"),
    ),
    Mutant(
        "budget-that-is-overdrawn-bounds-nothing",
        _CORE + "retention",
        "    while budget > 0 and state.oldest_kept",
        "    while budget and state.oldest_kept",
        _by(_RETENTION + "no_more_is_forgotten_than_may_be_where_a_deleted_batch_has_overdrawn"),
    ),
    Mutant(
        "executor-that-begins-nothing-keeps-what-it-holds",
        _CORE + "unbegun",
        "waited_ms = before.waited_ms + step_ms if",
        "waited_ms = before.waited_ms if",
        _by("unbegun.py::test_executor_that_never_begins_loses_what_it_holds_to_another"),
    ),
    Mutant(
        "executor-loses-what-it-holds-behind-a-long-run",
        _CORE + "unbegun",
        "            if model_id not in busy:\n",
        "            if True:\n",
        _by("unbegun.py::test_batches_behind_one_that_runs_for_hours_are_left_alone"),
    ),
]
