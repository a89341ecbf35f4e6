"""The judgement over a run of real processes: clients' history, every node's log, how all ended.

    findings = judge(evidence)

Each finding is a broken promise with the smallest explanation: of a request its whole story, from
the history and from each node's log. Of each rule the first few are told.

What lives here: the order of rules. What must never live here: a rule (`process_*`). Called by:
`chaos.running`, tests. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from chaos.checkers import process_ends as ends
from chaos.checkers import process_scheduler as scheduler
from chaos.checkers.process_clients import Clients
from chaos.checkers.process_logs import disagreements, gaps, merged, tale
from chaos.checkers.process_story import Telling
from chaos.checkers.process_values import Evidence, Finding
from chaos.history import Call, calls
from raftbatch.errors import InvalidRequest

_OF_A_RULE_MAX = 5


def judge(evidence: Evidence) -> list[Finding]:
    """Return all broken promises, with their stories; of each rule at most five."""
    counts: Counter[str] = Counter()
    found = []
    telling = Telling(evidence.events, evidence.logs, evidence.committed)
    for finding in _found(evidence):
        counts[finding.rule] += 1
        if counts[finding.rule] > _OF_A_RULE_MAX:
            continue
        if finding.name is not None:
            finding.story += telling.told(finding.name)
        found.append(finding)
    for finding in found:
        if (count := counts[finding.rule]) > _OF_A_RULE_MAX:
            finding.what += f" (one of {count} such)"
    return found


def _found(evidence: Evidence) -> Iterator[Finding]:
    committed = evidence.committed
    yield from disagreements(evidence.logs, committed)
    yield from ends.diverged(evidence)
    yield from ends.leaders(evidence.events)
    yield from ends.broken(evidence)
    yield from ends.unbounded(evidence.events, evidence.bounds)
    asked = calls(evidence.events)
    if evidence.is_healed:
        yield from _unanswered(asked)
        yield from ends.leaked(evidence.ends)
    entries = merged(evidence.logs, committed)
    yield from gaps(entries, committed)
    try:
        told_by_all = tale(entries)
    except InvalidRequest as error:
        yield Finding("unreadable-log", error.message)
        return
    yield from Clients(told_by_all, asked).judge()
    yield from scheduler.doubled(told_by_all)
    if evidence.is_healed:
        yield from scheduler.stuck(told_by_all)
        yield from ends.miscounted(told_by_all, evidence.ends, committed)
    if not evidence.harms_executors:
        yield from scheduler.isolated(told_by_all)
    if evidence.runs is not None:
        yield from scheduler.ran(told_by_all, evidence.runs)


def _unanswered(asked: Iterable[Call]) -> Iterator[Finding]:
    for call in asked:
        if call.ended is None:
            yield Finding(
                "stuck-call",
                f"{call.began.process} asked for {call.began.op} of {call.began.id}, and was never "
                "answered",
                (call.began.tenant, call.began.id),
            )
