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
KINDS = ("parts", "simulation", "real processes")
"""Of proofs, in the order of the columns."""
REAL = ("e2e", "fabric", "network", "storage")
"""Folders whose tests run real processes, disks and sockets."""
NONE = "none: "
"""Begins why there is nothing to simulate."""
PLANNED = "*planned*"

_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, TEXT))})/[\w./-]*)(?:::\w+)?`")
_PROMISE = re.compile(r"^\| (G\d+) [^|]+ \| [^|]+ \|$", re.MULTILINE)
_ROW = re.compile(r"^\| (G\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+/test_\w+\.py)(?:::(\w+))?`")


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


def check_proofs(guarantees: Source) -> list[str]:
    """Complain about each promise that is not told, or of whose proofs a kind is missing."""
    told = set(_PROMISE.findall(guarantees.text))
    rows = {row[0]: row[1:] for row in _ROW.findall(guarantees.text)}
    complaints = []
    for promise in (f"G{number}" for number in range(PROMISES)):
        if promise not in told:
            complaints.append(f"{guarantees.path}: {promise} is not told")
        for kind, proof in zip(KINDS, rows.get(promise, ("", "", "")), strict=True):
            folders = {path.split("/")[1] for path, _ in _TEST.findall(proof)}
            has_proof = folders & set(REAL) if kind == "real processes" else folders - set(REAL)
            has_reason = kind == "simulation" and proof.strip().startswith(NONE)
            if not has_proof and not has_reason and kind != "parts":
                complaints.append(f"{promise}: {kind}: names no test")
    return complaints


def check_tests(documents: Sequence[Source], tests: Sequence[Source]) -> list[str]:
    """Complain about each test that a document names, and that is not there."""
    functions = {test.path: _tests_in(test.syntax) for test in tests}
    complaints = []
    for document in documents:
        for path, test in _TEST.findall(document.text):
            there = functions.get(path, set())
            if not there or (test and test not in there):
                complaints.append(f"{document.path}: no {path}::{test}")
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


def test_promises_have_proofs_in_the_tree() -> None:
    expect_none(check_proofs(_document(GUARANTEES)))


def test_tests_that_are_named_exist_in_the_tree() -> None:
    told = [source for source in _documents() if source.path != "CHANGELOG.md"]  # of the past
    expect_none(check_tests(told, python_sources("tests")))


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
    ("simulation", "real", "complaints"),
    [
        ("`tests/properties/test_a.py::test_b`", "`tests/e2e/test_a.py`", 0),
        ("none: there is no disk in it", "`tests/storage/test_a.py`", 0),
        ("", "`tests/e2e/test_a.py`", 1),
        ("soon", "`tests/fabric/test_a.py`", 1),
        ("`tests/properties/test_a.py`", "", 1),
        ("`tests/properties/test_a.py`", "none: too dear", 1),
        ("`tests/properties/test_a.py`", "`tests/properties/test_a.py`", 1),
        ("`tests/e2e/test_a.py`", "`tests/e2e/test_a.py`", 1),
    ],
)
def test_promises_fire_on_a_missing_proof(simulation: str, real: str, complaints: int) -> None:
    lines = [f"| G{number} word | Says. |" for number in range(PROMISES)]
    good = "none: so | `tests/e2e/test_a.py`"
    lines += [f"| G{number} | | {good} |" for number in range(1, PROMISES)]
    text = "\n".join([*lines, f"| G0 | a part | {simulation} | {real} |"])
    assert len(check_proofs(Source(GUARANTEES, text))) == complaints


def test_promises_fire_on_a_missing_promise() -> None:
    assert len(check_proofs(Source(GUARANTEES, ""))) == 3 * PROMISES


@pytest.mark.parametrize(
    ("named", "complaints"),
    [
        ("`tests/unit/test_a.py::test_b`", 0),
        ("`tests/unit/test_a.py`", 0),
        ("`tests/unit/helpers.py`", 0),  # a path, which is checked as such
        ("`tests/unit/test_a.py::test_missing`", 1),
        ("`tests/unit/test_a.py::test_whole`", 1),  # which begins a name
        ("`tests/unit/test_a.py::test_inner`", 1),
        ("`tests/unit/test_missing.py`", 1),
    ],
)
def test_tests_fire_on_a_missing_one(named: str, complaints: int) -> None:
    tests = [
        Source(
            "tests/unit/test_a.py",
            "def test_b():\n    def test_inner(): ...\ndef test_whole_name(): ...",
        )
    ]
    assert len(check_tests([Source("docs/a.md", f"As {named} shows.")], tests)) == complaints


def test_decisions_fire_on_an_unlisted_one() -> None:
    index = Source("docs/adr/README.md", "[1](0001-one.md)")
    assert check_decisions(index, {"docs/adr/0001-one.md", "docs/adr/README.md"}) == []
    assert len(check_decisions(index, {"docs/adr/0002-two.md"})) == 1
