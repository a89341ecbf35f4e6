"""What must not be in any text of the repository."""

import re
from collections.abc import Sequence

import pytest

from tests.tidy.tree import Source, expect_none, text_sources

# Paths of somebody's machine; a URL or a longer path may well hold these words.
_MACHINE_PATH = re.compile(r"(?<![\w.:/*~-])/(work|root|home|Users)/\w")
_TODO = re.compile(r"(#|//|<!--)\s*(TODO|FIXME|XXX)\b(?!\s*\(#\d+\))")
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)


def check_hygiene(sources: Sequence[Source]) -> list[str]:
    """Complain about machine paths, promises without an issue, and unresolved merges."""
    complaints = []
    for source in sources:
        for pattern, complaint in (
            (_MACHINE_PATH, "a path of one machine"),
            (_TODO, "name the issue, as in (#12)"),
            (_CONFLICT, "a merge left unresolved"),
        ):
            for match in pattern.finditer(source.text):
                line = source.text.count("\n", 0, match.start()) + 1
                complaints.append(f"{source.path}:{line}: {complaint}: {match[0].strip()}")
    return complaints


def test_hygiene_holds_in_the_tree() -> None:
    expect_none(check_hygiene(text_sources()))


# The examples hold an `@` in the middle, which is taken out, so that this file is no offender.


def test_hygiene_lets_issues_and_other_paths_pass() -> None:
    text = "# TO@DO (#12): later\nhttps://example.org/home/x\n~/work/y\n/var/lib/raftbatch\n"
    assert check_hygiene([Source("a.py", text.replace("@", ""))]) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /@home/me/notes",
        "path = '/@work/x'",
        "# TO@DO: later",
        "<!-- FIX@ME -->",
        "<@<<<<<< ours",
    ],
)
def test_hygiene_fires_on_what_must_not_be_there(text: str) -> None:
    assert len(check_hygiene([Source("a.md", text.replace("@", ""))])) == 1
