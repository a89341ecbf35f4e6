"""The invariants of Raft, held against nodes of stock pysyncobj: those that apply to it.

One leader a term; what is committed never changes; a leader has what was committed
in earlier terms; equal commands at equal indices; what was acknowledged stays.

What lives here: the checks, over pysyncobj's private state. What must never live
here: how nodes are run. Called by: `chaos.suites.raft_stock`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from chaos.checkers.raft import Violation
from raftbatch.ids import NodeId

_LEADER = 2  # pysyncobj's _RAFT_STATE.LEADER
_Entry = tuple[bytes, int, int]  # pysyncobj's: command, index, term


class StockChecker:
    """See the module's docstring.

    Attributes:
        violation: the first broken promise.
        lives: the living nodes.
        acked: commands that were acknowledged.
        counts: what was seen.
    """

    def __init__(self) -> None:
        self.violation: str | None = None
        self.lives: dict[NodeId, Any] = {}
        self.acked: list[int] = []
        self.counts: Counter[str] = Counter()
        self._leaders: dict[int, NodeId] = {}
        self._committed: dict[int, _Entry] = {}
        self._commit_terms: dict[int, int] = {}
        self._applied: dict[int, bytes] = {}

    def complain(self, promise: str) -> None:
        """Note a broken promise; the first ends the run."""
        if self.violation is None:
            self.violation = promise

    def look(self) -> None:
        """Hold all nodes against the invariants."""
        for node, life in self.lives.items():
            log = life.raft_log
            if not len(log):
                self.complain(f"{node} has an empty log")
            else:
                self._leads(node, life, log)
                self._commits(node, life, log)
        if self.violation is not None:
            raise Violation(self.violation)

    def applies(self, node: NodeId, index: int, command: bytes) -> None:
        """Judge a command that a node applies."""
        first = self._applied.setdefault(index, command)
        if first != command:
            self.complain(f"{node} applies another command {index}")

    def judge(self, states: Mapping[NodeId, list[int]]) -> None:
        """Judge the final states: all that was acknowledged is in them, once."""
        for node, state in states.items():
            counts = Counter(state)
            lost = [each for each in self.acked if not counts[each]]
            twice = [each for each in self.acked if counts[each] > 1]
            if lost or twice:
                self.complain(f"{node} has lost {lost[:9]}, and has {twice[:9]} twice")

    def _leads(self, node: NodeId, life: Any, log: Any) -> None:
        term = life.raftCurrentTerm
        if life.raft_state != _LEADER or life.led_term == term:
            return
        life.led_term = term
        self.counts["elections"] += 1
        first = self._leaders.setdefault(term, node)
        if first != node:
            self.complain(f"{first} and {node} lead term {term}")
        start, last = log[0][1], log[-1][1]
        for index, entry in self._committed.items():
            if index < start or self._commit_terms[index] >= term:
                continue
            if index > last or log[index - start][2] != entry[2]:
                self.complain(f"{node} leads term {term}, but lacks entry {index}, committed")
                return

    def _commits(self, node: NodeId, life: Any, log: Any) -> None:
        commit = life.raftCommitIndex
        start, last = log[0][1], log[-1][1]
        for index in range(max(life.seen_commit, start) + 1, min(commit, last) + 1):
            entry = log[index - start]
            first = self._committed.setdefault(index, entry)
            self._commit_terms.setdefault(index, life.raftCurrentTerm)
            if first != entry:
                self.complain(f"{node} commits another entry {index}: {entry} is not {first}")
                return
        life.seen_commit = max(life.seen_commit, commit)
