"""`python -m chaos.broken NAME serve …`: `raftbatch` with a known bug, as a process of a world.

    python -m chaos run --workload submit --time 4 --seed 1 --broken fence-off

Each shows that a checker of real processes finds what it is there for. What lives here: the bugs,
each a mutant of the product's text, and putting one in place. What must never live here: an import
of the product at the top: the mutant has to be there before. Called by: worlds, as a process; the
command line, for the names.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from chaos.mutation import Mutant, install

_CORE = "coordinator.core."


@dataclass(frozen=True, slots=True)
class Broken:
    """A bug.

    Attributes:
        name: of it.
        description: in a line.
        mutants: that make it.
        found_by: a run that finds it: workload, nemeses, seconds, seed.
        rules: all of which are among the findings, of each such run.
        is_one_enough: whether one of the rules may be all that is found: what is lost hangs on
            the moment.
    """

    name: str
    description: str
    mutants: tuple[Mutant, ...]
    found_by: tuple[str, tuple[str, ...], float, int]
    rules: tuple[str, ...]
    is_one_enough: bool = False


def _mutant(name: str, module: str, old: str, new: str) -> Mutant:
    return Mutant(name, module, old, new, "tests/e2e/test_broken.py")


_SKIPS = _mutant(
    "replica-skips",
    "coordinator.replica",
    "        if not entry.data or entry.is_config:\n",
    "        if not entry.data or entry.is_config or (\n"
    "            entry.index % 13 == 0 and 'n2' in __import__('sys').argv\n"
    "        ):\n",
)

_SMALL = (
    _mutant(
        "outcome-is-another-when-asked-again",
        "coordinator.answers",
        "    return outcome\n",
        "    asked = outcome_or_error.__dict__\n"
        "    asked[outcome.name] = asked.get(outcome.name, 0) + 1\n"
        "    if asked[outcome.name] == 1:\n"
        "        return outcome\n"
        "    return outcome._replace(kind=type(outcome.kind).CANCELLED)\n",
    ),
    _mutant(
        "other-content-has-the-ticket-too",
        "coordinator.api_requests",
        "        is_same = verdict in (Verdict.KNOWN, Verdict.ENDED)\n        if is_same:\n",
        "        if ticket or verdict is Verdict.KNOWN:\n",
    ),
    _mutant(
        "one-too-many-counted",
        "coordinator.rpc.admin",
        "        requests=standing.requests,\n",
        "        requests=standing.requests + 1,\n",
    ),
    _mutant(
        "batch-given-twice",
        "executor.agent",
        "                    self._crew.send(number, _batch(run, given, places))\n",
        "                    for _ in range(1 + (given.batch % 4 == 0)):\n"
        "                        self._crew.send(number, _batch(run, given, places))\n",
    ),
    _mutant(  # a task that fails unseen, and a log that grows with each look at the node
        "overview-fails-aside",
        "coordinator.overview",
        "    executors = list(state.executors.values())\n",
        "    import asyncio, sys\n"
        "    async def aside(): raise KeyError(1)\n"
        "    asyncio.get_running_loop().create_task(aside())\n"
        "    if 'n3' in sys.argv: sys.stderr.write('x' * (2 << 20) + '\\n')\n"
        "    executors = list(state.executors.values())\n",
    ),
    _mutant(
        "some-are-admitted-by-another-name-too",
        "coordinator.leader",
        "        inbox.add_request(name, admission, size, done)\n",
        "        inbox.add_request(name, admission, size, done)\n"
        "        if name.endswith('7'):\n"
        "            other = admission._replace(request_id=admission.request_id + 'x')\n"
        "            inbox.add_request(name + 'x', other, size, lambda _: None)\n",
    ),
    _mutant(
        "results-in-another-order",
        "executor.core.reports",
        '            results=[b"" if answer.code else answer.result for _, answer in part],\n',
        '            results=[b"" if x.code else x.result for _, x in part][::-1],\n',
    ),
)

_ALL = (
    Broken(
        "dedupe-off",
        "a request id that is known is admitted again",
        (
            _mutant(
                "dedupe-off-in-the-core",
                _CORE + "admission",
                "        if len(set(self._names)) < count or not",
                "        if False and not",
            ),
            _mutant(
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
            _mutant(
                "slot-not-returned",
                _CORE + "slots",
                "            if not stopped or (each.batch, each.fence) != (batch, fence)\n",
                "            if not stopped or not batch % 8"
                " or (each.batch, each.fence) != (batch, fence)\n",
            ),
            _mutant(
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
            _mutant(
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
        "replica-skips",
        "the replica of n2 leaves out entries",
        (_SKIPS,),
        ("submit", (), 4.0, 1),
        ("died",),
    ),
    Broken(
        "differs-unseen",
        "the replica of n2 leaves out entries, and nobody compares digests",
        (
            _SKIPS,
            _mutant(
                "digests-not-compared",
                "coordinator.agreement",
                "        if own is None or self.is_over:\n",
                "        if True:\n",
            ),
        ),
        ("submit", (), 4.0, 1),
        ("diverged-digest",),
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
    ),
    Broken(
        "isolation-off",
        "the failure of a request is also that of its batchmates",
        (
            _mutant(
                "isolation-off",
                "executor.core.reports",
                "        (number, answer)\n        for number, answer in zip(numbers, outcome",
                "        (number, next((x for x in outcome.answers if x.code), answer))\n"
                "        for number, answer in zip(numbers, outcome",
            ),
        ),
        ("poison", (), 6.0, 1),
        ("not-isolated",),
    ),
    Broken(
        "fence-off",
        "a report counts whichever attempt it is of, and executors name a wrong one now and then",
        (
            _mutant(
                "fence-off",
                _CORE + "batches",
                "    return bool(batch.executor) and batch.fence == fence"
                " and batch.assigned == attempt\n",
                "    return bool(batch.executor)\n",
            ),
            _mutant(
                "reporter-not-looked-at",
                _CORE + "reports",
                "        or batch.executor != record.executor\n"
                "        or batch.incarnation != record.incarnation\n",
                "",
            ),
            _mutant(  # else it is a race: who wakes reports, or hears first that it is lost
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
            _mutant(
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
            _mutant(  # else a leader that hears nothing answers those of two entries alone
                "many-entries-in-flight",
                "coordinator.leader_parts",
                "    entries_inflight_max: int = 2\n",
                "    entries_inflight_max: int = 64\n",
            ),
            _mutant(  # else they gather, and wait for what never lands
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
            _mutant(
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
    Broken(
        "fsync-off",
        "nothing is ever synced",
        (
            _mutant(
                "fsync-off",
                "raftbatch.realworld.files",
                "            os.fdatasync(self._descriptor)\n",
                "            pass\n",
            ),
        ),
        ("submit", ("power-loss-all",), 12.0, 1),
        ("lost-ticket", "lost-entry", "not-healed", "died"),
        is_one_enough=True,
    ),
)

BROKEN = {each.name: each for each in _ALL}
"""Those that a run of clients and nemeses finds."""

_OF_DISKS = (
    Broken(
        "checksum-off",
        "what an entry holds is not held against its checksum",
        (
            _mutant(
                "checksum-off",
                "coordinator.raft.segments.layout",
                "    if zlib.crc32(content, salt) != data_crc:\n",
                "    if False:\n",
            ),
        ),
        ("chaos.disk_damage", (), 0.0, 1),
        (),
    ),
    Broken(
        "sync-error-ignored",
        "a node goes on after a sync that failed",
        (
            _mutant(
                "sync-error-ignored",
                "coordinator.raft.segments.writer",
                '        with disk_errors(f"syncing {path}"):\n'
                "            self._segment.datasync()\n",
                "        try:\n"
                "            self._segment.datasync()\n"
                "        except OSError:\n"
                "            pass\n",
            ),
        ),
        ("chaos.disk_rounds", (), 0.0, 1),
        (),
    ),
)

OF_DISKS = {each.name: each for each in _OF_DISKS}
"""Those that `chaos.disk_damage` and `chaos.disk_rounds` find."""


def known(name: str) -> Broken:
    """Return a bug by its name.

    Raises:
        LookupError: there is none.
    """
    return (BROKEN | OF_DISKS)[name]


def main() -> None:
    """Put the bug in place that the first argument names, then be `raftbatch`."""
    name = sys.argv.pop(1)
    if name not in BROKEN | OF_DISKS:
        sys.exit(f"there is no bug {name!r}: {', '.join(BROKEN | OF_DISKS)}")
    for mutant in known(name).mutants:
        install(mutant)
    from raftbatch.local.child import main as command

    command()


if __name__ == "__main__":
    main()
