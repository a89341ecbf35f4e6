"""Documents tell the truth where a test can see it.

Links resolve, the proofs of the guarantees exist, and every ADR is listed.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

import pytest

from tests.tidy.tree import ROOT, Source, expect_none, python_sources, text_sources

GUARANTEES = "docs/GUARANTEES.md"
PROMISES = 16  # G0 to G15
NOT_YET = "not yet built"

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_ROW = re.compile(r"^\| (G\d+) .*\|([^|]*)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def check_links(sources: Sequence[Source], paths: Collection[str]) -> list[str]:
    """Complain about each relative link of a document to a path that is not there."""
    complaints = []
    for source in sources:
        for target in _LINK.findall(source.text):
            if "://" not in target and not target.startswith("mailto:"):
                parts: list[str] = []
                for part in (PurePosixPath(source.path).parent / target).parts:
                    if part == ".." and parts:
                        parts.pop()
                    else:
                        parts.append(part)
                if "/".join(parts) not in paths:
                    complaints.append(f"{source.path}: no {target}")
    return complaints


def check_proofs(guarantees: Source, tests: Sequence[Source]) -> list[str]:
    """Complain about each promise without a proof, and each proof that is not a test."""
    texts = {test.path: test.text for test in tests}
    rows = dict(_ROW.findall(guarantees.text))
    complaints = [
        f"{guarantees.path}: no row for G{number}"
        for number in range(PROMISES)
        if f"G{number}" not in rows
    ]
    for promise, proof in rows.items():
        named = _TEST.findall(proof)
        if not named and NOT_YET not in proof:
            complaints.append(f"{promise}: neither a test nor `{NOT_YET}`")
        for path, test in named:
            if f"def {test}" not in texts.get(path, ""):
                complaints.append(f"{promise}: no {path}::{test}")
    return complaints


def check_decisions(index: Source, paths: Collection[str]) -> list[str]:
    """Complain about each ADR that its index does not link to."""
    folder = PurePosixPath(index.path).parent
    listed = {str(folder / target) for target in _LINK.findall(index.text)}
    decisions = [path for path in sorted(paths) if re.match(rf"{folder}/\d{{4}}-", path)]
    return [f"{path}: not listed in {index.path}" for path in decisions if path not in listed]


def _documents() -> list[Source]:
    return [source for source in text_sources() if source.path.endswith(".md")]


def _paths() -> set[str]:
    files = [source.path for source in text_sources()]
    folders = {str(above) for path in files for above in PurePosixPath(path).parents}
    return {*files, *folders}


def _document(path: str) -> Source:
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))


def test_links_resolve_in_the_tree() -> None:
    expect_none(check_links(_documents(), _paths()))


def test_proofs_exist_in_the_tree() -> None:
    expect_none(check_proofs(_document(GUARANTEES), python_sources("tests")))


def test_decisions_are_all_listed_in_the_tree() -> None:
    expect_none(check_decisions(_document("docs/adr/README.md"), _paths()))


def test_links_fire_on_a_missing_file() -> None:
    paths = {"README.md", "docs", "docs/a.md"}
    good = "[a](../README.md) [b](a.md#part) [c](https://example.org) [d](#here) [e](../docs)"
    assert check_links([Source("docs/b.md", good)], paths) == []
    assert len(check_links([Source("docs/b.md", "[a](README.md) [b](../a.md#x)")], paths)) == 2


@pytest.mark.parametrize(
    ("proof", "complaints"),
    [
        ("not yet built", 0),
        ("`tests/unit/test_a.py::test_b`", 0),
        ("`tests/unit/test_a.py`; the rest is not yet built", 0),
        ("", 1),
        ("soon", 1),
        ("`tests/unit/test_a.py::test_missing`", 1),
        ("`tests/unit/test_missing.py`", 1),
    ],
)
def test_proofs_fire_on_a_missing_test(proof: str, complaints: int) -> None:
    rows = [f"| G{number} word | Says. | {NOT_YET} |" for number in range(1, PROMISES)]
    guarantees = Source(GUARANTEES, "\n".join([f"| G0 word | Says. | {proof} |", *rows]))
    tests = [Source("tests/unit/test_a.py", "def test_b() -> None: ...")]
    assert len(check_proofs(guarantees, tests)) == complaints


def test_proofs_fire_on_a_missing_promise() -> None:
    assert len(check_proofs(Source(GUARANTEES, ""), [])) == PROMISES


def test_decisions_fire_on_an_unlisted_one() -> None:
    index = Source("docs/adr/README.md", "[1](0001-one.md)")
    assert check_decisions(index, {"docs/adr/0001-one.md", "docs/adr/README.md"}) == []
    assert len(check_decisions(index, {"docs/adr/0002-two.md"})) == 1
