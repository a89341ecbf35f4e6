"""Documents tell the truth where a test can see it.

Links and paths resolve, the proofs of the guarantees exist, every ADR is listed, and every version
is pinned.
"""

import ast
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pytest

from tests.tidy.tree import ROOT, TEXT, Source, expect_none, python_sources, text_sources

GUARANTEES = "docs/GUARANTEES.md"
PROMISES = 16  # G0 to G15
NOT_YET = "not yet built"
PLANNED = "*planned*"

_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, TEXT))})/[\w./-]*)(?:::\w+)?`")
_ROW = re.compile(r"^\| (G\d+) .*\|([^|]*)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def check_links(sources: Sequence[Source], paths: Collection[str]) -> list[str]:
    """Complain about each relative link of a document to a path or heading that is not there."""
    headings = {source.path: _anchors(source.text) for source in sources}
    complaints = []
    for source in sources:
        for target, anchor in _LINK.findall(source.text):
            if "://" in target or target.startswith("mailto:"):
                continue
            parts: list[str] = []
            for part in (PurePosixPath(source.path).parent / target).parts:
                if part == ".." and parts:
                    parts.pop()
                else:
                    parts.append(part)
            path = "/".join(parts) if target else source.path
            if path not in paths:
                complaints.append(f"{source.path}: no {target}")
            elif anchor and anchor not in headings.get(path, ()):
                complaints.append(f"{source.path}: no heading {anchor} in {path}")
    return complaints


def _anchors(text: str) -> set[str]:
    """Return how GitHub names the headings of a document."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
        same = sum(re.sub(r"-\d+$", "", other) == anchor for other in anchors)
        anchors.add(f"{anchor}-{same}" if same else anchor)
    return anchors


def check_paths(sources: Sequence[Source], paths: Collection[str]) -> list[str]:
    """Complain about each path of the repository that a document names, and that is not there."""
    return [
        f"{source.path}: no {path}"
        for source in sources
        for line in source.text.splitlines()
        if PLANNED not in line
        for path in _PATH.findall(line)
        if path.rstrip("/") not in paths
    ]


def check_proofs(guarantees: Source, tests: Sequence[Source]) -> list[str]:
    """Complain about each promise without a proof, and each proof that is not a test."""
    functions = {test.path: _tests_in(test.syntax) for test in tests}
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
            there = functions.get(path, set())
            if not there or (test and test not in there):
                complaints.append(f"{promise}: no {path}::{test}")
    return complaints


def _tests_in(node: ast.Module | ast.ClassDef) -> set[str]:
    """Return the names of the tests of a module, its classes' too."""
    names = set()
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            names |= _tests_in(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(child.name)
    return {name for name in names if name.startswith("test_")}


def check_constraints(project: Mapping[str, Any], constraints: str) -> list[str]:
    """Complain about each requirement of the project, extras included, without a version."""
    pinned = {_name(pin) for pin in re.findall(r"^([\w.-]+)==", constraints, re.MULTILINE)}
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    names = {_name(re.match(r"[\w.-]+", each)[0]) for each in wanted}  # type: ignore[index]
    return [f"{name}: no version in constraints.txt" for name in sorted(names - pinned)]


def _name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def check_decisions(index: Source, paths: Collection[str]) -> list[str]:
    """Complain about each ADR that its index does not link to."""
    folder = PurePosixPath(index.path).parent
    listed = {str(folder / target) for target, _ in _LINK.findall(index.text)}
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


def test_paths_are_there_in_the_tree() -> None:
    told = [source for source in _documents() if source.path != "CHANGELOG.md"]  # of the past
    expect_none(check_paths(told, _paths()))


def test_constraints_hold_a_version_of_everything() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    project["optional-dependencies"].pop("demo")  # names other extras alone
    expect_none(check_constraints(project, constraints))


def test_proofs_exist_in_the_tree() -> None:
    expect_none(check_proofs(_document(GUARANTEES), python_sources("tests")))


def test_decisions_are_all_listed_in_the_tree() -> None:
    expect_none(check_decisions(_document("docs/adr/README.md"), _paths()))


def test_links_fire_on_a_missing_file() -> None:
    paths = {"README.md", "docs", "docs/a.md", "docs/b.md"}
    other = Source("docs/a.md", "# It's a `part`\n## Same\n## Same\n```\n# no heading\n```\n")
    good = "[a](../README.md) [b](a.md#its-a-part) [c](https://example.org#x) [e](../docs)"
    good += " [d](#here) [f](a.md#same-1)\n# Here\n"
    assert check_links([Source("docs/b.md", good), other], paths) == []
    bad = "[a](README.md) [b](../a.md#x) [c](a.md#part) [d](#here) [e](a.md#no-heading)"
    assert len(check_links([Source("docs/b.md", bad), other], paths)) == 5


def test_paths_fire_on_a_missing_file() -> None:
    paths = {"docs", "docs/a.md", "tests/unit/test_a.py"}
    good = "`docs/` `docs/a.md` `tests/unit/test_a.py::test_b` `a/b.md` `git/docs/c`\n"
    good += "| `coordinator/server.py` | *planned* |\n"
    assert check_paths([Source("README.md", good)], paths) == []
    bad = "`docs/b.md` `tests/unit/test_b.py::test_b` `coordinator/server.py` `.ci/run`"
    assert len(check_paths([Source("README.md", bad)], paths)) == 4


def test_constraints_fire_on_a_missing_version() -> None:
    project = {"dependencies": ["a_b>=1", "c[x]>=1; y"], "optional-dependencies": {"dev": ["d==1"]}}
    assert check_constraints(project, "A-b==1\nc==1\nd==1\n") == []
    assert len(check_constraints(project, "a-b==1\ncc==1\n# d==1\n")) == 2


@pytest.mark.parametrize(
    ("proof", "complaints"),
    [
        ("not yet built", 0),
        ("`tests/unit/test_a.py::test_b`", 0),
        ("`tests/unit/test_a.py`; the rest is not yet built", 0),
        ("", 1),
        ("soon", 1),
        ("`tests/unit/test_a.py::test_missing`", 1),
        ("`tests/unit/test_a.py::test_whole`", 1),  # which begins a name
        ("`tests/unit/test_a.py::test_inner`", 1),
        ("`tests/unit/test_helpers.py`", 1),
        ("`tests/unit/test_missing.py`", 1),
    ],
)
def test_proofs_fire_on_a_missing_test(proof: str, complaints: int) -> None:
    rows = [f"| G{number} word | Says. | {NOT_YET} |" for number in range(1, PROMISES)]
    guarantees = Source(GUARANTEES, "\n".join([f"| G0 word | Says. | {proof} |", *rows]))
    tests = [
        Source(
            "tests/unit/test_a.py",
            "def test_b():\n    def test_inner(): ...\ndef test_whole_name(): ...",
        ),
        Source("tests/unit/test_helpers.py", "def tested(): ..."),
    ]
    assert len(check_proofs(guarantees, tests)) == complaints


def test_proofs_fire_on_a_missing_promise() -> None:
    assert len(check_proofs(Source(GUARANTEES, ""), [])) == PROMISES


def test_decisions_fire_on_an_unlisted_one() -> None:
    index = Source("docs/adr/README.md", "[1](0001-one.md)")
    assert check_decisions(index, {"docs/adr/0001-one.md", "docs/adr/README.md"}) == []
    assert len(check_decisions(index, {"docs/adr/0002-two.md"})) == 1
