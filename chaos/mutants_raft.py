"""Known bugs of consensus, each put back on purpose, with the seed or script that finds it.

What lives here: the list. What must never live here: an import of the product.
Called by: `chaos.mutants`. What practically needs one certain schedule is in
`chaos.mutants_raft_directed`.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_RAFT = "coordinator.raft."
_DRIVER = "tests/unit/test_core_driver.py::"


def _mutant(name: str, module: str, old: str, new: str, seed: int) -> Mutant:
    """Return a mutant that a seed finds; most have a directed twin of another name."""
    return Mutant(f"{name}-by-seed", _RAFT + module, old, new, seed)


RAFT = [
    _mutant(
        "acknowledged-before-durable",
        "appending",
        "return min(self.verified, self._standing.log.durable_index)",
        "return self.verified",
        0,
    ),
    _mutant(
        "leader-counts-itself-early",
        "replication",
        "held.append(log.durable_index)",
        "held.append(log.last_index)",
        0,
    ),
    _mutant(
        "sent-taken-for-held",
        "progress",
        "self.match = max(self.match, match)",
        "self.match = max(self.match, match and self.next - 1)",
        0,
    ),
    _mutant(
        "same-entries-taken-back",
        "appending",
        "if log.term(entry.index) == entry.term:",
        "if entry.index <= standing.commit:",
        10,
    ),
    _mutant(
        "committed-unverified",
        "appending",
        "min(message.commit, self.verified))",
        "min(message.commit, log.last_index))",
        2,
    ),
    _mutant(
        "verified-outlives-its-term",
        "appending",
        "self.verified = self._acknowledged = self._answered = 0\n\n    def conn",
        "self._acknowledged = self._answered = 0\n\n    def conn",
        81,
    ),
    _mutant(
        "committed-by-part-of-a-snapshot",
        "core",
        "                    self.receiving.on_install_snapshot(message)\n",
        "                    standing.commit = max(\n"
        "                        standing.commit, min(message.index, standing.log.last_index)\n"
        "                    )\n"
        "                    self.receiving.on_install_snapshot(message)\n",
        120,
    ),
    _mutant(
        "conflicting-suffix-kept",
        "core",
        "if log.term(index) != term:",
        "if log.last_index < index:",
        155,
    ),
    _mutant(
        "snapshot-not-held-against-the-journal",
        "datadir",
        "if newest and journal.term(newest.index) != newest.term:",
        "if newest and journal.last_index < 0:",
        98,
    ),
    _mutant(
        "compacted-beyond-the-snapshot",
        "datadir",
        "self.journal.compact(min(decision.compact_to_index, sending))",
        "self.journal.compact(self.journal.last_index)",
        0,
    ),
    _mutant(
        "snapshot-gone-is-fatal",
        "snapshotting",
        "elif meta in self._data.snapshots.all:",
        "elif meta is not None:",
        78,
    ),
    _mutant(
        "vote-ignores-the-log",
        "standing",
        "return (last_term, last_index) >= (self.log.last_term, self.log.last_index)",
        "return True",
        0,
    ),
    _mutant(
        "votes-twice",
        "election",
        "and vote in (None, asker)",
        "and vote != standing.self_id",
        2,
    ),
    _mutant(
        "message-before-its-term-is-durable",
        "standing",
        "Outgoing(to, message, self._hard_state_lsn)",
        "Outgoing(to, message, 0)",
        0,
    ),
    _mutant(
        "commit-remembered",
        "core",
        "standing.commit = newest.index if newest else 0",
        "standing.commit = log.last_index",
        0,
    ),
    _mutant(
        "old-term-committed-by-counting",
        "commit",
        "if index > commit and log.term(index) == term else",
        "if index > commit else",
        0,
    ),
    _mutant(
        "append-of-an-old-term-accepted",
        "core",
        "elif term < standing.term:",
        "elif term < standing.term and not isinstance(message, AppendEntries):",
        1,
    ),
    _mutant(
        "read-without-a-round",
        "core",
        "self.reads.ask(self.replication.round + 1, answer)",
        "answer(standing.commit)",
        151,
    ),
    _mutant(
        "read-before-an-entry-of-its-term",
        "reads",
        "return standing.log.term(standing.commit) == standing.term",
        "return standing.term > 0",
        2,
    ),
    _mutant(
        "reads-outlive-the-lead",
        "core",
        "            self.reads.fail()\n",
        "",
        30,
    ),
    _mutant(
        "applied-twice",
        "applying",
        "entries = self._journal.tail(self.index + 1, budget)",
        "entries = self._journal.tail(max(self.index, 1), budget)",
        0,
    ),
    _mutant(
        "applied-beyond-commit",
        "applying",
        "partial(self._has_read, commit)",
        "partial(self._has_read, 1 << 63)",
        0,
    ),
    _mutant(
        "window-leaks",
        "progress",
        "self.in_flight_bytes -= self._in_flight.popleft()[1]",
        "self._in_flight.popleft()",
        0,
    ),
    _mutant(
        "space-never-measured-again",
        "journal",
        "if self.space is not Space.ROOMY and not (self._is_measuring or self.failure):",
        "if self.space is None:",
        36,
    ),
    _mutant(
        "waits-in-vain",
        "proposals",
        "        if term > self._term:\n",
        "        if term < 0:\n",
        48,
    ),
    Mutant(
        "term-older-than-its-snapshot",
        _RAFT + "standing",
        "        if log.last_term > self.term:\n",
        "        if False:\n",
        "tests/scenarios/test_scenarios.py::test_scenario[snapshot_brings_its_term]",
    ),
    Mutant(
        "followed-at-once-without-bound",
        _RAFT + "driver",
        "            if self._at_once < _AT_ONCE_MAX:\n",
        "            if True:\n",
        _DRIVER + "test_what_follows_from_thousands_of_messages_at_once_is_done_once_for_most",
    ),
    Mutant(
        "applied-at-once-without-bound",
        _RAFT + "driver",
        "self._pump(self._at_once + 1 + committed)",
        "self._pump(self._at_once + 1)",
        _DRIVER + "test_one_turn_applies_no_more_than_frames_may_wait_for",
    ),
    Mutant(
        "pause-taken-for-a-disk-that-hangs",
        _RAFT + "fitness",
        "        if has_stalled or self",
        "        if self",
        _DRIVER + "test_leader_that_stood_still_does_not_take_its_disk_for_hung",
    ),
    Mutant(
        "disk-judged-by-what-was-seen-long-ago",
        _RAFT + "fitness",
        "        self.look(now_ns)\n",
        "",
        _DRIVER + "test_leader_that_stood_still_does_not_take_its_disk_for_hung",
    ),
]
