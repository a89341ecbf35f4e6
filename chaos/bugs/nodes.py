"""Bugs of nodes: logs that are not equal, disks that forget, processes that do not end or begin.

What lives here: them. What must never live here: what they are (`chaos.bugs`). Called by:
`chaos.broken`.
"""

from __future__ import annotations

from chaos.bugs import Broken, mutant
from chaos.limits import Limits

_SKIPS = mutant(
    "replica-skips",
    "coordinator.replica",
    "        if not entry.data or entry.is_config:\n",
    "        if not entry.data or entry.is_config or (\n"
    "            entry.index % 13 == 0 and 'n2' in __import__('sys').argv\n"
    "        ):\n",
)

_AT_ONCE = Limits(answers_s=2.0, idle_s=1.0, heal_s=4.0, stop_s=4.0, calm_s=1.0)

_CARELESS = (
    mutant(  # n1 goes on: it reads nothing of that again
        "checksum-of-another-content",
        "coordinator.raft.segments.layout",
        "term, index, crc(data, salt))\n",
        "term, index, crc(data, salt) ^ (index == 12 and 'n1' in __import__('sys').argv))\n",
    ),
    mutant(
        "other-term-and-other-content-on-disk",
        "coordinator.raft.segments.writer",
        "        buffers = encode_records(operations, cursor.lsn, cursor.header.salt)\n",
        "        written = operations\n"
        "        if 'n3' in __import__('sys').argv:\n"
        "            written = [\n"
        "                each if each.kind is not _ENTRY or each.index not in (2, 9) else\n"
        "                each._replace(term=each.term - 1) if each.index == 2 else\n"
        "                each._replace(data=each.data[:-1] + bytes([each.data[-1] ^ 1]))\n"
        "                for each in operations\n"
        "            ]\n"
        "        buffers = encode_records(written, cursor.lsn, cursor.header.salt)\n",
    ),
    mutant(
        "newest-entries-taken-back-at-the-end",
        "coordinator.server",
        "            await self._sync(self._node.log, drained)\n",
        "            journal = self._node.log._driver.journal\n"
        "            journal.truncate(max(self._node.log.commit - 30, journal.first_index))\n"
        "            journal.flush()\n"
        "            await self._sync(self._node.log, drained)\n",
    ),
    mutant(
        "signals-pass-unheard",
        "raftbatch.realworld.process",
        "            first = signal.Signals(signal.sigwait(self._signals))\n",
        "            while 'x2' in __import__('sys').argv:\n"
        "                signal.sigwait(self._signals)\n"
        "            first = signal.Signals(signal.sigwait(self._signals))\n",
    ),
    mutant(
        "outcomes-are-told-to-nobody-after-a-while",
        "coordinator.api_requests",
        "        return self._waits.add(known.name, told)\n",
        "        import sys\n"
        "        sys.asked = getattr(sys, 'asked', 0) + 1\n"
        "        return self._waits.add(known.name, told if sys.asked < 3 else lambda _: None)\n",
    ),
    mutant(
        "assigned-to-another-life",
        "coordinator.leadership",
        "        entry = Entry(self.term, at_ms, tuple(flight.records))\n",
        "        records = tuple(flight.records)\n"
        "        if parts.counts.entries_total % 5 == 4:\n"
        "            from dataclasses import replace\n"
        "            records = tuple(\n"
        "                replace(each, incarnation=each.incarnation + 1)\n"
        "                if type(each).__name__ == 'Assign' else each\n"
        "                for each in records\n"
        "            )\n"
        "        entry = Entry(self.term, at_ms, records)\n",
    ),
)

NODES = (
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
            mutant(
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
        "careless-nodes",
        "small bugs of nodes side by side, each of which another rule finds",
        _CARELESS,
        ("submit", (), 4.0, 1),
        (
            "diverged-log",
            "hangs",
            "leader-bug",
            "lost-entry",
            "not-alive",
            "ran-unassigned",
            "stuck-call",
            "two-leaders",
            "unreadable-log",
        ),
        perhaps=("false-outcome", "lost-ticket", "miscounted", "stuck-request"),
        limits=_AT_ONCE,
    ),
    Broken(
        "never-back",
        "a node that has a log already starts, and never serves",
        (
            mutant(
                "never-back",
                "coordinator.starting",
                "            self._forget_note()\n            return\n",
                "            self._forget_note()\n            await asyncio.sleep(1e6)\n",
            ),
        ),
        ("submit", ("kill-leader",), 4.0, 4),
        ("not-healed",),
        perhaps=(),
        limits=_AT_ONCE,
    ),
    Broken(
        "majority-of-one",
        "every node is a majority by itself",
        (
            mutant(
                "majority-of-one",
                "coordinator.raft.standing",
                "            quorum = len(voters) // 2 + 1\n",
                "            quorum = 1\n",
            ),
        ),
        ("submit", ("scatter",), 8.0, 57),
        ("two-leaders",),
        limits=_AT_ONCE,
    ),
    Broken(
        "fsync-off",
        "nothing is ever synced",
        (
            mutant(
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

DISKS = (
    Broken(
        "checksum-off",
        "what an entry holds is not held against its checksum",
        (
            mutant(
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
            mutant(
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
