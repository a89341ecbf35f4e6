"""A file is read at one sitting, a function on one screen."""

import ast
from collections.abc import Sequence

from tests.tidy.tree import CODE, Source, expect_none, python_sources

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60  # without its docstring: saying more must not be punished

# path, or path:function: why it may be longer.
ALLOWED: dict[str, str] = {}


def check_lengths(sources: Sequence[Source], allowed: dict[str, str] = ALLOWED) -> list[str]:
    """Complain about each file and function that is too long. Total. Deterministic."""
    complaints = []
    used = set()
    for source in sources:
        lengths = {source.path: (len(source.text.splitlines()), FILE_LINES_MAX)}
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths[f"{source.path}:{node.name}"] = (_lines(node), FUNCTION_LINES_MAX)
        for name, (length, length_max) in lengths.items():
            if length > length_max and name in allowed:
                used.add(name)
            elif length > length_max:
                complaints.append(f"{name}: {length} lines, at most {length_max}")
    return complaints + [f"{name}: not too long any more" for name in sorted(allowed.keys() - used)]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def test_lengths_hold_in_the_tree() -> None:
    expect_none(check_lengths(python_sources(*CODE)))


def test_lengths_fire_above_the_limit_and_not_at_it() -> None:
    def with_function(lines: int) -> list[Source]:
        docstring = '    """Says\n    it."""\n'
        return [Source("a.py", "def f():\n" + docstring + "    pass\n" * (lines - 1))]

    assert check_lengths(with_function(FUNCTION_LINES_MAX)) == []
    assert len(check_lengths(with_function(FUNCTION_LINES_MAX + 1))) == 1
    assert check_lengths([Source("a.py", "x = 1\n" * FILE_LINES_MAX)]) == []
    assert len(check_lengths([Source("a.py", "x = 1\n" * (FILE_LINES_MAX + 1))])) == 1


def test_lengths_keep_a_list_of_exceptions_without_idle_ones() -> None:
    source = Source("a.py", "x = 1\n" * (FILE_LINES_MAX + 1))
    assert check_lengths([source], {"a.py": "a table"}) == []
    assert len(check_lengths([source], {"a.py": "a table", "b.py": "no longer"})) == 1
