"""Text to the word pieces of an uncased BERT, by its vocabulary. Deterministic.

    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "em", "##bed", ...])
    vocabulary.ids("Embed", 256)        # [CLS] em ##bed [SEP], as places in the vocabulary

The steps are those that Devlin et al. published with BERT: what cannot be seen goes, accents
go, letters become small, punctuation and Chinese characters stand alone, and each word falls
into the longest pieces that the vocabulary has. A word such as `[SEP]` in a text is text here:
nobody who writes one can steer the model.

What lives here: that, in the standard library alone, since the packages that do it bring a
client of a model hub with them. What must never live here: a file, torch. Called by:
`executor.examples.embedder`; tests.

Source: github.com/google-research/bert, tokenization.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

WORD_CHARACTERS_MAX = 100
"""A longer word is unknown, as it was when the model was trained."""

_WORDS_REMEMBERED_MAX = 50_000  # some 10 MB; the pieces of a word never change
_UNSEEN = ("Cc", "Cf", "Co", "Cs")
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Vocabulary:
    """The pieces that a model knows, each by its place.

    Args:
        pieces: in the order of their ids; those within a word begin with `##`.

    Raises:
        KeyError: one of `[UNK]`, `[CLS]` and `[SEP]` is missing.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._ids = {piece: place for place, piece in enumerate(pieces)}
        self._unknown = self._ids["[UNK]"]
        self._begin, self._end = self._ids["[CLS]"], self._ids["[SEP]"]
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str, pieces_max: int) -> list[int]:
        """Return the ids of a text, its begin and its end included.

        Args:
            text: any.
            pieces_max: from 2; what is beyond is cut off.
        """
        found = [self._begin]
        for word in words(text):
            if len(found) >= pieces_max - 1:
                break
            found += self._word(word)
        del found[pieces_max - 1 :]
        found.append(self._end)
        return found

    def _word(self, word: str) -> list[int]:
        known = self._known.get(word)
        if known is None:
            known = self._pieces(word)
            if len(self._known) >= _WORDS_REMEMBERED_MAX:
                self._known.clear()
            self._known[word] = known
        return known

    def _pieces(self, word: str) -> list[int]:
        """Return the longest piece that begins the word, then the longest behind it, ..."""
        if len(word) > WORD_CHARACTERS_MAX:
            return [self._unknown]
        found: list[int] = []
        begin = 0
        while begin < len(word):
            mark = "##" if begin else ""
            for end in range(len(word), begin, -1):
                piece = self._ids.get(mark + word[begin:end])
                if piece is not None:
                    break
            else:
                return [self._unknown]
            found.append(piece)
            begin = end
        return found


def words(text: str) -> Iterator[str]:
    """Yield the words of a text: in small letters, without accents, punctuation alone."""
    cleaned = "".join([_cleaned(each) for each in text])
    plain = "".join(
        [
            each
            for each in unicodedata.normalize("NFD", cleaned)
            if unicodedata.category(each) != "Mn"
        ]
    ).lower()
    for run in plain.split():
        if run.isalnum():  # most are
            yield run
            continue
        begin = 0
        for place, character in enumerate(run):
            if _is_punctuation(character):
                if begin < place:
                    yield run[begin:place]
                yield character
                begin = place + 1
        if begin < len(run):
            yield run[begin:]


def _cleaned(character: str) -> str:
    """Return what stands for a character: itself, a space, both, or nothing."""
    if character.isascii() and character.isprintable():
        return character
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in _UNSEEN:
        return ""
    place = ord(character)
    if any(first <= place <= last for first, last in _CHINESE):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    """Return whether a character stands alone: all signs of ASCII do, `$` and `+` too."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
