"""Known bugs of a first start, each with the seed that finds it.

What lives here: the list. What must never live here: an import of the product.
Called by: `chaos.mutants`.
"""

from __future__ import annotations

from chaos.mutation import Mutant

_FOUNDING = "coordinator.founding"
_NOTE = "coordinator.note"

FOUNDING = [
    Mutant(
        "silence-is-consent",
        _FOUNDING,
        """            if (why := self._why_not(node, replies.get(node, "it was not asked")))
        }
        if not self.waiting:
            tokens = tuple((node, _token(replies[node])) for node in self.others)
""",
        """            if (why := self._why_not(node, replies.get(node, "it was not asked")))
        }
        if len(self.waiting) <= len(self.others) // 2:
            tokens = tuple(
                (node, _token(replies[node])) for node in self.others if node not in self.waiting
            )
""",
        0,
    ),
    Mutant(
        "token-not-checked",
        _FOUNDING,
        "        if adopt.token != self._note.token:\n",
        "        if False:\n",
        3,
    ),
    Mutant(
        "empty-said-before-token-is-durable",
        _FOUNDING,
        "past=past)\n            self._keep(note)\n",
        "past=past)\n",
        228,
    ),
    Mutant(
        "plan-not-noted",
        _FOUNDING,
        "plan=Plan(cluster_id, tokens))\n            self._keep(note)\n",
        "plan=Plan(cluster_id, tokens))\n",
        27,
    ),
    Mutant(
        "cluster-id-from-configuration",
        _FOUNDING,
        "            cluster_id = ClusterId(self._draw(CLUSTER_ID_BYTES).hex())\n",
        "            import hashlib\n"
        "            cluster_id = ClusterId(hashlib.md5(repr(self.founders)"
        ".encode()).hexdigest())\n",
        3,
    ),
    Mutant(
        "lost-plan-adopts",
        _FOUNDING,
        "            if self._note.asker:\n",
        "            if False:\n",
        "tests/unit/test_founding.py::test_lost_plan_adopts_nobody",
    ),
    Mutant(
        "founder-believed-unasked",
        _FOUNDING,
        "            self.is_curious = True\n",
        "            self._learn_founder(ask.token)\n"
        "            return Empty(self.node_id, self._note.token, self.founders, self._about)\n",
        "tests/unit/test_founding.py::test_late_question_of_a_lost_founder_does_not_undo_a_plan",
    ),
    Mutant(
        "note-removed-before-journal-is-durable",
        "coordinator.starting",
        "                self._world.files.sync_directory(journal)\n",
        "                pass\n",
        "tests/unit/test_founding.py::test_note_stays_until_the_journal_is_durable",
    ),
    Mutant(
        "note-forgotten-at-restart",
        _FOUNDING,
        "        if note is not None and note.founders == self.founders:\n",
        "        if False:\n",
        3,
    ),
    Mutant(
        "born-not-heeded",
        _FOUNDING,
        "        if self.is_founder and runs:\n",
        "        if False:\n",
        43,
    ),
    Mutant(
        "founder-born-before-all-are-settled",
        _FOUNDING,
        "        if len(self._settled) == len(self.others):\n",
        "        if len(self._settled) >= len(self.others) // 2:\n",
        3,
    ),
    Mutant(
        "wiped-nodes-waited-for-forever",
        _FOUNDING,
        "                case Refused(slug=StaleIncarnation.slug):\n",
        '                case Refused(slug=""):\n',
        226,
    ),
    Mutant(
        "note-named-before-synced",
        _NOTE,
        "                file.datasync()\n",
        "                pass\n",
        0,
    ),
    Mutant(
        "note-not-named-durably",
        _NOTE,
        "            self._files.rename(temporary, self._path)\n"
        "            self._files.sync_directory(self._directory)\n",
        "            self._files.rename(temporary, self._path)\n",
        36,
    ),
]
