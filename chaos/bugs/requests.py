"""Bugs about requests: taken in twice, answered falsely, run too often, never rid of.

What lives here: them. What must never live here: what they are (`chaos.bugs`). Called by:
`chaos.broken`.
"""

from __future__ import annotations

from dataclasses import replace

from chaos.bugs import SOON, Broken, mutant

_CORE = "coordinator.core."

_SMALL = (
    mutant(
        "outcome-is-another-when-asked-again",
        "coordinator.answers",
        "    return outcome\n",
        "    asked = outcome_or_error.__dict__\n"
        "    asked[outcome.name] = asked.get(outcome.name, 0) + 1\n"
        "    if asked[outcome.name] == 1:\n"
        "        return outcome\n"
        "    return outcome._replace(kind=type(outcome.kind).CANCELLED)\n",
    ),
    mutant(
        "other-content-has-the-ticket-too",
        "coordinator.api_requests",
        "        is_same = verdict in (Verdict.KNOWN, Verdict.ENDED)\n        if is_same:\n",
        "        if ticket or verdict is Verdict.KNOWN:\n",
    ),
    mutant(
        "one-too-many-counted",
        "coordinator.rpc.admin",
        "        requests=standing.requests,\n",
        "        requests=standing.requests + 1,\n",
    ),
    mutant(
        "batch-given-twice",
        "executor.agent",
        "                    self._crew.send(number, _batch(run, given, places))\n",
        "                    for _ in range(1 + (given.batch % 4 == 0)):\n"
        "                        self._crew.send(number, _batch(run, given, places))\n",
    ),
    mutant(  # a task that fails unseen, and a log that grows with each look at the node
        "overview-fails-aside",
        "coordinator.overview",
        "    executors = list(state.executors.values())\n",
        "    import asyncio, sys\n"
        "    async def aside(): raise KeyError(1)\n"
        "    asyncio.get_running_loop().create_task(aside())\n"
        "    if 'n3' in sys.argv: sys.stderr.write('x' * (2 << 20) + '\\n')\n"
        "    executors = list(state.executors.values())\n",
    ),
    mutant(
        "some-are-admitted-by-another-name-too",
        "coordinator.intake",
        "    inbox.add_requests(admissions, names, sizes, dones)\n",
        "    inbox.add_requests(admissions, names, sizes, dones)\n"
        "    for name, each, size in zip(names, admissions, sizes):\n"
        "        if name.endswith('7'):\n"
        "            other = each._replace(request_id=each.request_id + 'x')\n"
        "            inbox.add_request(name + 'x', other, size, lambda _: None)\n",
    ),
    mutant(
        "results-in-another-order",
        "executor.core.reports",
        '            results=[b"" if answer.code else answer.result for _, answer in part],\n',
        '            results=[b"" if x.code else x.result for _, x in part]\n'
        "            [:: -1 if held.given.batch % 3 == 0 else 1],\n",
    ),
)

REQUESTS = (
    Broken(
        "dedupe-off",
        "a request id that is known is admitted again",
        (
            mutant(
                "dedupe-off-in-the-core",
                _CORE + "admission",
                "        if len(set(self._names)) < count or not",
                "        if False and not",
            ),
            mutant(
                "dedupe-off-at-the-door",
                "coordinator.api_requests",
                "        if known is None:\n            return hashed\n",
                "        return hashed\n",
            ),
        ),
        ("submit", (), 4.0, 1),
        ("doubled-admission", "doubled-outcome"),
    ),
    Broken(
        "slot-leaks",
        "the slot of every eighth batch is never returned",
        (
            mutant(
                "slot-not-returned",
                _CORE + "slots",
                "            if not stopped or (each.batch, each.fence) != (batch, fence)\n",
                "            if not stopped or not batch % 8"
                " or (each.batch, each.fence) != (batch, fence)\n",
            ),
            mutant(
                "slot-not-freed",
                _CORE + "executors",
                "        if held.is_lapsed and (held.batch, held.fence) in stopped:\n",
                "        if held.is_lapsed and held.batch % 8"
                " and (held.batch, held.fence) in stopped:\n",
            ),
        ),
        ("submit", (), 4.0, 1),
        ("leaked-slot",),
    ),
    Broken(
        "refuses-what-it-took",
        "some requests are refused definitely, and are admitted",
        (
            mutant(
                "refuses-what-it-took",
                "coordinator.submitting",
                "        if type(result) is Landed and not result.verdict:  # as mostly\n",
                "        if type(result) is Landed and not result.verdict:\n"
                "            if result.index % 8 == 0:\n"
                "                self.refuse(place, error_of(Verdict.INVALID_REQUEST, 'no', 0))\n"
                "                return\n",
            ),
        ),
        ("submit", (), 4.0, 1),
        ("failed-took-effect",),
    ),
    Broken(
        "careless",
        "small bugs side by side, each of which another rule finds",
        _SMALL,
        ("submit", (), 4.0, 1),
        (
            "changed-outcome",
            "foreign-ticket",
            "miscounted",
            "ran-too-often",
            "stuck-request",
            "traceback",
            "unasked",
            "unbounded-file",
            "wrong-result",
        ),
        limits=replace(SOON, outcomes_min=300),
    ),
    Broken(
        "isolation-off",
        "the failure of a request is also that of its batchmates",
        (
            mutant(
                "isolation-off",
                "executor.core.reports",
                "        (number, answer)\n        for number, answer in zip(numbers, outcome",
                "        (number, next((x for x in outcome.answers if x.code), answer))\n"
                "        for number, answer in zip(numbers, outcome",
            ),
        ),
        ("poison", (), 6.0, 1),
        ("not-isolated",),
        limits=replace(SOON, outcomes_min=100),
    ),
    Broken(
        "fence-off",
        "a report counts whichever attempt it is of, and executors name a wrong one now and then",
        (
            mutant(
                "fence-off",
                _CORE + "batches",
                "    return bool(batch.executor) and batch.fence == fence"
                " and batch.assigned == attempt\n",
                "    return bool(batch.executor)\n",
            ),
            mutant(
                "reporter-not-looked-at",
                _CORE + "reports",
                "        or batch.executor != record.executor\n"
                "        or batch.incarnation != record.incarnation\n",
                "",
            ),
            mutant(  # else it is a race: who wakes reports, or hears first that it is lost
                "wrong-fence",
                "executor.core.reports",
                "            fence=held.given.fence,\n            executor=executor,\n"
                "            incarnation=incarnation,\n            queue_ns",
                "            fence=held.given.fence - (held.given.batch % 8 == 0),\n"
                "            executor=executor,\n"
                "            incarnation=incarnation,\n            queue_ns",
            ),
        ),
        ("submit", (), 4.0, 1),
        ("false-outcome",),
    ),
    Broken(
        "answers-before-commit",
        "a ticket is given before its entry is on a majority",
        (
            mutant(
                "answers-before-commit",
                "coordinator.leader",
                "        key = proposal.term, proposal.index\n",
                "        group = sent.group\n"
                "        taken = Landed(proposal.index, Verdict.OK, '', proposal.index)\n"
                "        for ask in group.admitting:\n"
                "            asyncio.get_running_loop().call_soon(ask.done, taken)\n"
                "        group.admitting[:] = [\n"
                "            ask._replace(done=lambda _: None) for ask in group.admitting\n"
                "        ]\n"
                "        key = proposal.term, proposal.index\n",
            ),
            mutant(  # else a leader that hears nothing answers those of two entries alone
                "many-entries-in-flight",
                "coordinator.leader_parts",
                "    entries_inflight_max: int = 2\n",
                "    entries_inflight_max: int = 64\n",
            ),
            mutant(  # else they gather, and wait for what never lands
                "no-gathering",
                "coordinator.leader_parts",
                "    return in_flight < _SMALL_BYTES or waiting >= _LARGE_BYTES\n",
                "    return True\n",
            ),
        ),
        ("submit", ("depose-leader",), 12.0, 4),
        ("lost-ticket",),
    ),
    Broken(
        "forwards-stale",
        "a deposed leader has others propose what it said that it has not",
        (
            mutant(
                "forwards-stale",
                "coordinator.leadership",
                "        self.inbox.close(error)\n",
                "        from chaos.stale import forward\n"
                "        forward([each.what for each in self.inbox._queue])\n"
                "        self.inbox.close(error)\n",
            ),
        ),
        ("submit", ("scatter",), 14.0, 18),
        ("failed-took-effect",),
    ),
)
