"""The known bugs, each with what finds it.

What lives here: the lists. What must never live here: an import of the product.
Called by: `chaos.__main__`. A mutant that no seed can find, since the disk of
the simulation does not do what it needs, names a test instead.
"""

from __future__ import annotations

from chaos.mutants_core import CORE
from chaos.mutants_diverging import DIVERGING
from chaos.mutants_founding import FOUNDING
from chaos.mutants_members import MEMBERS
from chaos.mutants_raft import RAFT
from chaos.mutants_raft_directed import RAFT_DIRECTED
from chaos.mutants_scheduler import SCHEDULER
from chaos.mutants_whole import REPLAYED, WHOLE
from chaos.mutation import Mutant

_SEGMENTS = "coordinator.raft.segments."

JOURNAL = [
    Mutant(
        "no-datasync",
        _SEGMENTS + "writer",
        "            self._segment.datasync()\n",
        "            pass\n",
        0,
    ),
    Mutant(
        "segment-not-synced-before-named",
        _SEGMENTS + "writer",
        "            file.datasync()\n",
        "            pass\n",
        1,
    ),
    Mutant(
        "segment-name-not-synced",
        _SEGMENTS + "writer",
        "            files.sync_directory(directory)\n",
        "            pass\n",
        0,
    ),
    Mutant(
        "failed-sync-tried-again",
        _SEGMENTS + "writer",
        'with disk_errors(f"syncing {path}"):',
        'with disk_errors(f"syncing {path}", retryable=True):',
        "tests/unit/test_journal.py::test_failed_sync_ends_the_journal",
    ),
    Mutant(
        "failed-write-taken-for-done",
        "coordinator.raft.failures",
        '            raise TryLater(f"{self._doing}: {error}") from error\n',
        "            return True\n",
        10,
    ),
    Mutant(
        "marked-before-synced",
        _SEGMENTS + "writer",
        '        with disk_errors(f"syncing {path}"):\n',
        "        write_mark(self._mark, operations[-1].lsn)\n"
        '        with disk_errors(f"syncing {path}"):\n',
        6,
    ),
    Mutant(
        "vouched-before-synced",
        _SEGMENTS + "layout",
        "head = pack(RECORD_MAGIC, kind, length, lsn, synced, term, index, crc(data, salt))",
        "head = pack(RECORD_MAGIC, kind, length, lsn, lsn - 1, term, index, crc(data, salt))",
        8,
    ),
    Mutant(
        "hard-state-not-in-header",
        _SEGMENTS + "writer",
        "            hard_state=cursor.hard_state,\n",
        "            hard_state=HardState(cursor.hard_state.term, None),\n",
        0,
    ),
    Mutant(
        "vote-forgotten",
        _SEGMENTS + "writer",
        "NodeId(vote) if vote else None)",
        "None)",
        0,
    ),
    Mutant(
        "no-anchor-after-truncation",
        _SEGMENTS + "writer",
        "            anchoring.interrupt()\n            return Kept(index)",
        "            return Kept(index)",
        0,
    ),
    Mutant(
        "no-anchor-after-reset",
        _SEGMENTS + "writer",
        "            anchoring.interrupt()\n            return Restarted(index)",
        "            return Restarted(index)",
        0,
    ),
    Mutant(
        "data-checksum-ignored",
        _SEGMENTS + "layout",
        "    if zlib.crc32(content, salt) != data_crc:",
        "    if False:",
        2,
    ),
    Mutant(
        "head-checksum-ignored",
        _SEGMENTS + "layout",
        "    if zlib.crc32(data[offset : offset + _CHECKED_BYTES], salt) != head_crc:",
        "    if False:",
        "tests/unit/test_journal_layout.py::test_record_with_any_bit_flipped_is_none",
    ),
    Mutant(
        "damage-cut-as-torn",
        _SEGMENTS + "replay",
        "witness = scan.vouched()",
        "witness = None",
        "tests/unit/test_journal_recovery.py::test_recovery_refuses_damage_that_a_later_group_vouches_for",
    ),
    Mutant(
        "torn-tail-refused",
        _SEGMENTS + "replay",
        "        if witness is not None:\n",
        "        if True:\n",
        2,
    ),
    Mutant(
        "mark-ignored",
        _SEGMENTS + "replay",
        "        if marked > cursor.lsn:\n",
        "        if False:\n",
        12,
    ),
    Mutant(
        "short-segment-accepted",
        _SEGMENTS + "replay",
        "            if cursor.lsn != following.base_lsn - 1:\n",
        "            if False:\n",
        "tests/unit/test_journal_recovery.py::test_recovery_refuses_a_lost_record_at_the_end_of_a_full_segment",
    ),
    Mutant(
        "missing-segment-accepted",
        _SEGMENTS + "replay",
        "        if cursor.oldest < first:\n",
        "        if False:\n",
        "tests/unit/test_journal_recovery.py::test_recovery_refuses_a_missing_oldest_segment",
    ),
    Mutant(
        "torn-tail-written-over",
        _SEGMENTS + "recovery",
        "    if reading.torn:\n",
        "    if False:\n",
        "tests/unit/test_journal_recovery.py::test_recovery_never_goes_on_in_front_of_what_it_cut",
    ),
    Mutant(
        "last-group-not-rewritten",
        _SEGMENTS + "recovery",
        "    _rewrite(segment, path, reading.group_offset, cursor.offset)\n",
        "",
        "tests/unit/test_journal_recovery.py::test_recovery_writes_again_what_a_failed_sync_lost",
    ),
    Mutant(
        "recovered-tail-not-synced",
        _SEGMENTS + "recovery",
        "        segment.datasync()\n",
        "",
        45,
    ),
    Mutant(
        "dropped-before-durable",
        "coordinator.raft.journal",
        "            self._add(Kind.DROP, 0, boundary)\n",
        "            self._add(Kind.DROP, 0, boundary)\n"
        "            self._reading.submit(\n"
        "                partial(remove_segments, self._files, self._directory, boundary),\n"
        "                self._has_removed,\n"
        "            )\n",
        2,
    ),
    Mutant(
        "live-segment-dropped",
        _SEGMENTS + "index",
        "bisect_right(self._indices, index + 1) - 1\n        return",
        "bisect_right(self._indices, index + 1)\n        return",
        0,
    ),
    Mutant(
        "durable-by-index",
        "coordinator.raft.journal",
        "return self._tail.durable_index(self.durable)",
        "return min(self._index.last, self.last_index)",
        1,
    ),
    Mutant(
        "truncated-entries-read",
        _SEGMENTS + "reader",
        "            read.last = min(read.last, index)\n",
        "            pass\n",
        0,
    ),
    Mutant(
        "stalled-group-lost",
        _SEGMENTS + "groups",
        "            self._flushed.appendleft((rest, size - report.size))\n",
        "            pass\n",
        10,
    ),
    Mutant(
        "stalled-group-put-last",
        _SEGMENTS + "groups",
        "            self._flushed.appendleft((rest, size - report.size))\n",
        "            self._flushed.append((rest, size - report.size))\n",
        10,
    ),
    Mutant(
        "stalled-group-not-taken-back",
        "coordinator.raft.journal",
        "            self.waiting = self._groups.take_back() + self.waiting\n",
        "            self.waiting = self.waiting + self._groups.take_back()\n",
        29,
    ),
    Mutant(
        "written-behind-a-failed-sync",
        _SEGMENTS + "groups",
        "            self._failure = error\n",
        "            pass\n",
        17,
    ),
    Mutant(
        "next-group-durable-with-the-last",
        "coordinator.raft.journal",
        "        self.durable = report.lsn\n",
        "        jobs, waiting = self._groups.jobs, len(self.waiting)\n"
        "        self.durable = report.lsn if jobs == 0 else self.lsn - waiting\n",
        2,
    ),
    Mutant(
        "durable-rises-when-stalled",
        _SEGMENTS + "writer",
        "        return Report(self._cursor.lsn, ends[done], events, stalled)",
        "        return Report(operations[-1].lsn, ends[done], events, stalled)",
        3,
    ),
]

MUTANTS = {
    "core": CORE,
    "diverging": DIVERGING,
    "founding": FOUNDING,
    "journal": JOURNAL,
    "raft": RAFT + RAFT_DIRECTED + MEMBERS,
    "scheduler": SCHEDULER + WHOLE + REPLAYED,
}
