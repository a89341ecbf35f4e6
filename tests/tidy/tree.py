"""The tree that the checks look at, as values: a path and a text."""

import ast
import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

PRODUCT = ("raftbatch", "coordinator", "executor")
"""The packages of the wheel."""

CODE = (*PRODUCT, "chaos", "benchmarks", "demo", "tests", "proto")
"""Every folder that holds Python code."""

TEXT = (*CODE, "docs", "cluster_configs", "ci", ".ci")
"""Every folder of the repository, beside the files at its root; test_hygiene.py holds that."""

_GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


@dataclass(frozen=True)
class Source:
    """A file of the tree, or one made up by a test.

    Attributes:
        path: relative to the root, with `/` between its parts.
        text: the content.
    """

    path: str
    text: str

    @cached_property
    def syntax(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of its nodes; to walk costs as much as to parse, and each check looks at all.

        There are a million in the tree, which live on: the collector of cycles would look at them
        again and again, and cost more than all else.
        """
        was_on = gc.isenabled()
        gc.disable()
        try:
            return list(ast.walk(self.syntax))
        finally:
            gc.freeze()
            if was_on:
                gc.enable()

    @property
    def module(self) -> str:
        """The dotted name: `coordinator.raft` for `coordinator/raft/__init__.py`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def imported_from(self, node: ast.ImportFrom) -> str:
        """The dotted name of the module that `from … import` names, also relative to this one."""
        if not node.level:
            return node.module or ""
        parts = self.module.split(".")
        package = parts if self.path.endswith("__init__.py") else parts[:-1]
        return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])

    def at(self, node: ast.AST, complaint: str) -> str:
        """Return the complaint with the place of the node in front."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {complaint}"


def expect_none(complaints: Sequence[str]) -> None:
    """Fail with every complaint, a line each; pytest's own words would show the first alone."""
    assert not complaints, "\n".join(["", *complaints])


def is_generated(path: str) -> bool:
    """Return whether `make proto` writes this file. Total. Deterministic."""
    return path.endswith(_GENERATED)


@lru_cache
def python_sources(*folders: str) -> tuple[Source, ...]:
    """Return every module written by hand in these folders."""
    return tuple(
        _source(path, text)
        for path, text in _read(folders)
        if path.endswith(".py") and not is_generated(path)
    )


@cache
def _source(path: str, text: str) -> Source:
    """Return a file of the tree: the same value to all checks, so that it is parsed once."""
    return Source(path, text)


@lru_cache
def text_sources() -> tuple[Source, ...]:
    """Return every text file of the repository that is written by hand."""
    at_root = tuple(path for path in paths() if "/" not in path)
    return tuple(
        Source(path, text) for path, text in _read((*at_root, *TEXT)) if not is_generated(path)
    )


@lru_cache
def paths() -> tuple[str, ...]:
    """Return every file of the repository, also in folders that are not listed here."""
    patterns = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    found: list[str] = []
    for folder, names, files in os.walk(ROOT):
        names[:] = sorted(name for name in names if not is_ignored(name, patterns))
        below = Path(folder).relative_to(ROOT)
        # `.git` is a file in a linked working tree.
        found += [(below / name).as_posix() for name in sorted(files) if name != ".git"]
    return tuple(found)


def is_ignored(folder: str, patterns: Sequence[str]) -> bool:
    """Return whether git looks into no folder of that name. Total. Deterministic."""
    return folder == ".git" or any(fnmatch(folder, pattern.rstrip("/")) for pattern in patterns)


def _read(places: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read these files, and all below these folders; what is not UTF-8 holds data, not text."""
    found: list[tuple[str, str]] = []
    for path in paths():
        if path in places or path.partition("/")[0] in places:
            try:
                found.append((path, (ROOT / path).read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return tuple(found)
