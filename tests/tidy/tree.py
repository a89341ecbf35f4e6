"""The tree that the checks look at, as values: a path and a text."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

PRODUCT = ("raftbatch", "coordinator", "executor")
"""The packages of the wheel."""

CODE = (*PRODUCT, "chaos", "benchmarks", "tests", "proto")
"""Every folder that holds Python code."""

TEXT = (*CODE, "docs", "cluster_configs", "ci", ".ci")
"""Every folder of the repository, beside the files at its root."""

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

    @property
    def module(self) -> str:
        """The dotted name: `coordinator.raft` for `coordinator/raft/__init__.py`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

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
        Source(path, text)
        for path, text in _read(folders)
        if path.endswith(".py") and not is_generated(path)
    )


@lru_cache
def text_sources() -> tuple[Source, ...]:
    """Return every text file of the repository that is written by hand."""
    at_root = tuple(
        (path.name, path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.iterdir())
        if path.is_file() and path.name != ".git"  # a file in a linked working tree
    )
    return tuple(
        Source(path, text) for path, text in at_root + _read(TEXT) if not is_generated(path)
    )


def _read(folders: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read all files below the folders; those that are not UTF-8 hold data, not text."""
    found: list[tuple[str, str]] = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                try:
                    text = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue
                found.append((path.relative_to(ROOT).as_posix(), text))
    return tuple(found)
