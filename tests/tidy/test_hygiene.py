"""What must not be in any text of the repository, and that no text escapes the checks."""

import re
from collections.abc import Sequence

import pytest

from tests.tidy.tree import (
    CODE,
    PRODUCT,
    TEXT,
    Source,
    expect_none,
    is_ignored,
    paths,
    text_sources,
)

# Paths of somebody's machine; a URL or a longer path may well hold these words.
_MACHINE_PATH = re.compile(r"(?<![\w.:/*~-])/(work|root|home|Users)/\w")
# And those where a machine has what was put there by hand; tests use the first.
_SCRATCH_PATH = re.compile(r"(?<![\w.:/*~-])/(tmp|opt|srv|mnt)\b")
_TODO = re.compile(r"(#|//|<!--)\s*(TODO|FIXME|XXX)\b(?!\s*\(#\d+\))")
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)


def check_hygiene(sources: Sequence[Source]) -> list[str]:
    """Complain about machine paths, promises without an issue, and unresolved merges."""
    complaints = []
    for source in sources:
        is_read = source.path.endswith(".md") or source.path.partition("/")[0] in PRODUCT
        for pattern, complaint in (
            (_MACHINE_PATH, "a path of one machine"),
            *([(_SCRATCH_PATH, "a path of one machine")] if is_read else []),
            (_TODO, "name the issue, as in (#12)"),
            (_CONFLICT, "a merge left unresolved"),
        ):
            for match in pattern.finditer(source.text):
                line = source.text.count("\n", 0, match.start()) + 1
                complaints.append(f"{source.path}:{line}: {complaint}: {match[0].strip()}")
    return complaints


def check_places(files: Sequence[str]) -> list[str]:
    """Complain about each file in a folder that no check reads. Total. Deterministic."""
    complaints = []
    for path in files:
        top = path.partition("/")[0] if "/" in path else ""
        if top and top not in TEXT:
            complaints.append(f"{path}: name {top} in tests/tidy/tree.py, or in .gitignore")
        elif path.endswith((".py", ".pyi")) and top not in CODE:
            complaints.append(f"{path}: Python code is in {', '.join(CODE)} alone")
    return complaints


def test_hygiene_holds_in_the_tree() -> None:
    expect_none(check_hygiene(text_sources()))


def test_places_are_all_known_in_the_tree() -> None:
    expect_none(check_places(paths()))


def test_places_fire_on_what_no_check_reads() -> None:
    assert check_places(["README.md", "docs/adr/a.md", ".ci/run", "chaos/a.py"]) == []
    for path in ("tools/a.txt", "tools/deep/a.py", ".github/run.yml", "setup.py", "ci/a.py"):
        assert len(check_places([path])) == 1, path


def test_places_leave_out_what_git_ignores() -> None:
    patterns = [".venv/", ".venv-*/", "__pycache__/"]
    assert is_ignored(".venv", patterns)
    assert is_ignored(".venv-3.12", patterns)
    assert is_ignored(".git", patterns)
    assert not is_ignored("venv", patterns)
    assert "README.md" in paths()
    assert not [path for path in paths() if "__pycache__" in path or path.startswith(".venv")]


# The examples hold an `@` in the middle, which is taken out, so that this file is no offender.


def test_hygiene_lets_issues_and_other_paths_pass() -> None:
    text = "# TO@DO (#12): later\nhttps://example.org/home/x\n~/work/y\n/var/lib/raftbatch\n"
    assert check_hygiene([Source("a.py", text.replace("@", ""))]) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /@home/me/notes",
        "path = '/@work/x'",
        "write to /@tmp/x",
        "`/@opt` or so",
        "[a](/@srv/b/c)",
        "mount it on /@mnt/disk",
        "# TO@DO: later",
        "<!-- FIX@ME -->",
        "<@<<<<<< ours",
    ],
)
def test_hygiene_fires_on_what_must_not_be_there(text: str) -> None:
    assert len(check_hygiene([Source("a.md", text.replace("@", ""))])) == 1


def test_hygiene_lets_tests_alone_use_the_scratch_folder() -> None:
    text = "path = '/@tmp/x'".replace("@", "")
    assert check_hygiene([Source("tests/unit/a.py", text)]) == []
    for path in ("raftbatch/a.py", "docs/a.md", "tests/storage/README.md"):
        assert len(check_hygiene([Source(path, text)])) == 1
