"""Every module, and every public class, function and method of the product, says what it is for."""

import ast
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.tidy.tree import PRODUCT, Source, expect_none, python_sources

_SENTENCE = re.compile(r"[A-Z`].*?\w.*?[.!?](\s|$)", re.DOTALL)

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def check_docstrings(sources: Sequence[Source]) -> list[str]:
    """Complain about each missing docstring, and each module whose docstring is no sentence."""
    complaints = []
    for source in sources:
        if not _SENTENCE.match(ast.get_docstring(source.syntax) or ""):
            complaints.append(source.at(source.syntax, "the module's docstring is not a sentence"))
        for node in _public(source.syntax):
            if not (ast.get_docstring(node) or "").strip():
                complaints.append(source.at(node, f"{node.name} has no docstring"))
    return complaints


def _public(node: ast.Module | ast.ClassDef) -> Iterator[_Definition]:
    """Yield what others can name, but for what only overrides another."""
    for child in node.body:
        if (
            isinstance(child, _Definition)
            and not child.name.startswith("_")
            and not _repeats(child)
        ):
            yield child
            if isinstance(child, ast.ClassDef):
                yield from _public(child)


def _repeats(node: _Definition) -> bool:
    """Return whether a decorator says that the docstring is elsewhere."""
    words = {word for one in node.decorator_list for word in re.findall(r"\w+", ast.unparse(one))}
    return bool(words & {"override", "overload", "setter", "deleter"})


def test_docstrings_are_complete_in_the_tree() -> None:
    expect_none(check_docstrings(python_sources(*PRODUCT)))


def test_docstrings_leave_private_and_overriding_names_alone() -> None:
    text = '''"""Words."""
def _f(): ...
class A:
    """Says it."""
    @override
    def g(self): ...
    def __repr__(self): ...
'''
    assert check_docstrings([Source("raftbatch/a.py", text)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        '"""todo"""',
        '"""Says it."""\ndef f(): ...',
        '"""Says it."""\nasync def f():\n    """ """',
        '"""Says it."""\nclass A: ...',
        '"""Says it."""\nclass A:\n    """A."""\n    def f(self): ...',
    ],
)
def test_docstrings_fire_on_a_missing_one(text: str) -> None:
    assert len(check_docstrings([Source("raftbatch/a.py", text)])) == 1
