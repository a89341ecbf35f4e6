"""Text falls into the word pieces that the model was trained on."""

from __future__ import annotations

import pytest

from executor.examples.wordpiece import WORD_CHARACTERS_MAX, Vocabulary, words

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "em",
    "##bed",
    "##b",
    "##ed",
    "a",
    "##a",
    "!",
    "[",
    "]",
]
BEGIN, END = 2, 3


def pieces(text: str, pieces_max: int = 16) -> list[str]:
    """Return the pieces of a text, without its begin and its end."""
    first, *found, last = Vocabulary(PIECES).ids(text, pieces_max)
    assert (first, last) == (BEGIN, END)
    return [PIECES[each] for each in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It's 3+4=7.", ["it", "'", "s", "3", "+", "4", "=", "7", "."]),
        ("Naïve  GRÜSSE\tund\n–", ["naive", "grusse", "und", "–"]),
        ("a\u00a0b\u2003c", ["a", "b", "c"]),
        ("你好abc", ["你", "好", "abc"]),
        ("z\u200be\x00r\ufffdo", ["zero"]),
        ("don’t “say”", ["don", "’", "t", "“", "say", "”"]),
        ("", []),
        (" \n", []),
    ],
)
def test_words_are_what_bert_was_shown(text: str, found: list[str]) -> None:
    assert list(words(text)) == found


def test_word_falls_into_the_longest_pieces() -> None:
    assert pieces("Embed") == ["em", "##bed"]
    assert pieces("a aa ab!") == ["a", "a", "##a", "a", "##b", "!"]


def test_word_that_no_pieces_make_is_unknown_as_a_whole() -> None:
    assert pieces("emx a") == ["[UNK]", "a"]
    assert pieces("a" * WORD_CHARACTERS_MAX)[:2] == ["a", "##a"]
    assert pieces("a" * (WORD_CHARACTERS_MAX + 1)) == ["[UNK]"]


def test_text_cannot_name_what_marks_its_end() -> None:
    assert pieces("a [SEP]") == ["a", "[", "[UNK]", "]"]


@pytest.mark.parametrize("pieces_max", [2, 3, 4, 5])
def test_text_is_cut_where_the_model_ends(pieces_max: int) -> None:
    whole = ["em", "##bed", "a"]
    assert pieces("embed a", pieces_max) == whole[: pieces_max - 2]
