"""What is embedded: the sentences of Python's own reference, which every Python carries.

`pydoc_data.topics` is what `help("if")` shows: some two thousand paragraphs of English, under
the licence of Python itself. What lives here: from its pages to sentences. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_CHARACTERS_MIN, _CHARACTERS_MAX = 40, 300
_LETTERS_MIN = 0.8  # of all characters; less is code, or a table
_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


class Sentence(NamedTuple):
    """A sentence, and where it stands.

    Attributes:
        topic: the page.
        text: the sentence, on one line.
    """

    topic: str
    text: str


def sentences(pages: Mapping[str, str]) -> list[Sentence]:
    """Return each sentence once, in the order of the pages. Total. Deterministic."""
    found: dict[str, Sentence] = {}
    for topic in sorted(pages):
        for paragraph in _PARAGRAPH.split(pages[topic]):
            for text in _SENTENCE.split(" ".join(paragraph.split())):
                if _is_sentence(text):
                    found.setdefault(text, Sentence(topic, text))
    return list(found.values())


def _is_sentence(text: str) -> bool:
    if not _CHARACTERS_MIN <= len(text) <= _CHARACTERS_MAX:
        return False
    letters = sum(each.isalpha() or each == " " for each in text)
    return letters >= _LETTERS_MIN * len(text)
