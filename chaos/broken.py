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
        rules: of which at least one is among the findings.
        is_sure: whether each such run finds it: real processes are never twice alike.
    """

    name: str
    description: str
    mutants: tuple[Mutant, ...]
    found_by: tuple[str, tuple[str, ...], float, int]
    rules: tuple[str, ...]
    is_sure: bool = True


def _mutant(name: str, module: str, old: str, new: str) -> Mutant:
    return Mutant(name, module, old, new, "tests/e2e/test_broken.py")


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
        ("lost-ticket", "doubled-outcome", "doubled-admission"),
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
        ("leaked-slot", "stuck-request"),
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
        (
            _mutant(
                "replica-skips",
                "coordinator.replica",
                "        if not entry.data or entry.is_config:\n",
                "        if not entry.data or entry.is_config or (\n"
                "            entry.index % 13 == 0 and 'n2' in __import__('sys').argv\n"
                "        ):\n",
            ),
        ),
        ("submit", (), 4.0, 1),
        ("died", "diverged-digest", "not-alive", "lost-ticket"),
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
        ("submit", ("isolate-leader",), 12.0, 1),
        ("lost-ticket", "doubled-admission"),
        is_sure=False,
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
