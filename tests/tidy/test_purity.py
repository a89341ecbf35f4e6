"""The pure core: nothing in it may give two replicas, or two runs, different results.

The bans of test_ports.py hold here too, without any exception. What no reading can find (order
of a dict built in another order) is left to the tests that compare digests.
"""

import ast
from collections.abc import Iterator, Sequence

import pytest

from tests.tidy.test_ports import BANNED, BANNED_METHODS, banned_names
from tests.tidy.tree import PRODUCT, Source, expect_none, python_sources

PURE = ("coordinator/core/", "executor/core/", "executor/core.py")

_BANNED_IN_CORE = BANNED | {
    "asyncio": "the core never waits",
    "builtins.float": "numbers are integers",
    "builtins.hash": "it differs between processes",
    "builtins.id": "it differs between processes",
    "logging": "the core never logs; the shell logs what it returns",
}

# Calls that take the elements of a set in its order, which differs between processes; `sorted`,
# `len`, `min`, `max`, `any`, `all` and `sum` of integers do not show it.
_ORDERED = {"dict", "enumerate", "filter", "iter", "list", "map", "next", "tuple", "zip"}
_ORDERED_METHODS = {"extend", "fromkeys", "join"}
_SET_METHODS = {"difference", "intersection", "symmetric_difference", "union"}
_SETS = {"AbstractSet", "FrozenSet", "MutableSet", "Set", "frozenset", "set"}


def check_purity(sources: Sequence[Source]) -> list[str]:
    """Complain about whatever could differ between two replicas. Total. Deterministic."""
    complaints = []
    for source in sources:
        for node, name, reason in banned_names(source, _BANNED_IN_CORE, BANNED_METHODS):
            complaints.append(source.at(node, f"{name} is banned in the core: {reason}"))
        for node in source.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
                complaints.append(source.at(node, "a float in the core"))
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
                complaints.append(source.at(node, "`/` makes a float in the core: use `//`"))
        names = _names_of_sets(source.syntax)
        for node in _taken_in_order(source.syntax):
            if _is_set(node, names):
                complaints.append(source.at(node, "a set is taken in its order: sort it"))
    return complaints


def _taken_in_order(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield every expression whose elements are taken one by one."""
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=taken) | ast.comprehension(iter=taken) | ast.Starred(value=taken):
                yield taken
            case ast.Call(func=ast.Name(id=name), args=taken_all) if name in _ORDERED:
                yield from taken_all
            case ast.Call(func=ast.Attribute(attr=name), args=taken_all) if (
                name in _ORDERED_METHODS
            ):
                yield from taken_all
            case ast.Call(func=ast.Attribute(attr="pop", value=taken), args=[]):
                yield taken
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=taken):
                yield taken


def _names_of_sets(tree: ast.Module) -> set[str]:
    """Return the names and attributes that the module annotates or assigns as sets."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=target, annotation=annotation) if _is_set_type(annotation):
                names.add(_last_name(target))
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _is_set_type(annotation):
                names.add(name)
            case ast.Assign(targets=[target], value=value) if _is_set(value, names):
                names.add(_last_name(target))
    return names - {""}


def _is_set(node: ast.expr, names: set[str]) -> bool:
    """Return whether the expression is seen to be a set."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _SETS
        case ast.Call(func=ast.Attribute(attr=name)) if name in _SET_METHODS:
            return True
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            # Sets, and also the views of dicts, whose union is a set.
            return any(_is_set(side, names) or _is_view(side) for side in (node.left, node.right))
        case ast.IfExp():
            return _is_set(node.body, names) or _is_set(node.orelse, names)
        case _:
            return _last_name(node) in names


def _is_view(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"items", "keys"}
    )


def _is_set_type(node: ast.expr) -> bool:
    """Return whether an annotation says set at its outermost, also as one of a union."""
    match node:
        case ast.Subscript(value=value):
            return _last_name(value) in _SETS
        case ast.BinOp(left=left, right=right):
            return _is_set_type(left) or _is_set_type(right)
        case _:
            return _last_name(node) in _SETS


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_purity_holds_in_the_tree() -> None:
    pure = [source for source in python_sources(*PRODUCT) if source.path.startswith(PURE)]
    assert pure, "the folders of the core have moved"
    expect_none(check_purity(pure))


def test_purity_lets_pure_code_pass() -> None:
    text = (
        "live: set[int] = set()\nfor x in sorted(live): ...\nhalf = 7 // 2\nn = len(live)\n"
        "if 3 in live | {4}: ...\nfor y in {'a': 1}.items(): ...\nlive.discard(3)\n"
    )
    assert check_purity([Source("coordinator/core/x.py", text)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import asyncio",
        "from logging import getLogger",
        "import pickle",
        "x = 0.5",
        "x = float('1')",
        "x = 7 / 2",
        "x /= 2",
        "hash(x)",
        "key = id(x)",
        "sorted(xs, key=hash)",
        "for x in {1, 2}: ...",
        "xs = [x for x in set(ys)]",
        "def f(live: frozenset[int]) -> None:\n    for x in live: ...",
        "class S:\n    live: set[int]\n    def f(self):\n        return list(self.live)",
        "live = set()\nlive.pop()",
        "live = set()\nfirst, *rest = live",
        "live = {x for x in xs}\nf(*live)",
        "both = set(xs)\nfor x in both - other: ...",
        "for key in a.keys() | b.keys(): ...",
        "', '.join(xs.union(ys))",
    ],
)
def test_purity_fires_on_what_may_differ(text: str) -> None:
    assert check_purity([Source("coordinator/core/x.py", text)]) != []
