"""Imports go down only: the table of floors, held by reading every import.

Source: docs/ARCHITECTURE.md, "Folders and floors".
"""

import ast
from collections.abc import Iterator, Sequence

from tests.tidy.tree import CODE, PRODUCT, Source, expect_none, python_sources

# The folder (or module) on the left may import those on the right, and itself. A module belongs
# to the longest name on the left that begins its own.
_WORDS = {"raftbatch"}
_CONSENSUS = {"coordinator.core", "coordinator.raft"}
FLOORS: dict[str, set[str]] = {
    # F0, the shared words; the SDK and the command line stand above them and know nothing else.
    "raftbatch": set(),
    "raftbatch.client": _WORDS,
    "raftbatch.local": _WORDS,
    "raftbatch.local.child": {"raftbatch.cli"},
    "raftbatch.cli": _WORDS | {"raftbatch.client", "raftbatch.local"},
    "raftbatch.__main__": {"raftbatch.cli"},
    # F1 and F2 do not know each other: the machine never hears of Raft, Raft carries bytes only.
    "coordinator.core": _WORDS,
    "coordinator.raft": _WORDS,
    # F3, F4, F5.
    "coordinator": _WORDS | _CONSENSUS,
    "coordinator.rpc": _WORDS | _CONSENSUS | {"coordinator"},
    "coordinator.server": _WORDS | _CONSENSUS | {"coordinator", "coordinator.rpc"},
    "coordinator.__main__": {"coordinator.server"},
    "executor.core": _WORDS,
    "executor": _WORDS | {"executor.core"},
}

# Commands that may import upper floors, inside a function only.
DEFERRED = {
    "raftbatch.cli.checking": "reads a configuration as coordinators and executors do",
    "raftbatch.cli.config": "checks what only a coordinator reads",
    "raftbatch.cli.executor": "runs an executor",
    "raftbatch.cli.models": "runs a model",
    "raftbatch.cli.log": "dumps the files of a coordinator",
    "raftbatch.cli.serve": "runs a coordinator",
    "raftbatch.cli.source": "reads the files of a coordinator",
}

# Modules of others that only one floor of ours may import.
CONFINED = {
    "pysyncobj": "coordinator.raft",
}


def check_floors(sources: Sequence[Source]) -> list[str]:
    """Complain about each import of the product that goes up or sideways. Total. Deterministic."""
    complaints = []
    for source in sources:
        floor = _floor(source.module)
        for node, target, deferred in _imports(source):
            top = target.partition(".")[0]
            if top in CONFINED and floor != CONFINED[top]:
                complaints.append(source.at(node, f"only {CONFINED[top]} imports {top}"))
            elif top in CODE and top not in PRODUCT:
                complaints.append(source.at(node, f"the product never imports {top}"))
            elif deferred and source.module in DEFERRED:
                pass
            elif top in PRODUCT and _floor(target) not in FLOORS[floor] | {floor}:
                complaints.append(source.at(node, f"{floor} must not import {target}"))
    return complaints


def _floor(module: str) -> str:
    """Return the longest name in the table that begins this module's."""
    return max((name for name in FLOORS if f"{module}.".startswith(f"{name}.")), key=len)


def _imports(source: Source) -> Iterator[tuple[ast.AST, str, bool]]:
    """Yield where an import stands, what it names in full, and whether it is in a function."""
    for node, deferred in _walk(source.syntax, False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, deferred
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, f"{source.imported_from(node)}.{alias.name}", deferred


def _walk(node: ast.AST, deferred: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, deferred
    deferred = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, deferred)


def test_floors_hold_in_the_tree() -> None:
    expect_none(check_floors(python_sources(*PRODUCT)))


def test_floors_let_imports_go_down() -> None:
    text = (
        "import raftbatch.ids, msgpack\nfrom .core import state\nfrom coordinator.raft import log\n"
    )
    assert check_floors([Source("coordinator/replica.py", text)]) == []


def test_floors_fire_on_every_direction_but_down() -> None:
    offenders = {
        "raftbatch/ids.py": "from coordinator.raft import log",
        "raftbatch/codec.py": "import raftbatch.client",
        "raftbatch/cli/top.py": "def top():\n    import coordinator.core",
        "raftbatch/cli/log.py": "import coordinator.raft.log",
        "coordinator/core/apply.py": "from coordinator import replica",
        "coordinator/raft/log.py": "from ..core import state",
        "coordinator/raft/__init__.py": "from .. import replica",
        "coordinator/feed.py": "if TYPE_CHECKING:\n    from coordinator.rpc import gateway",
        "coordinator/api.py": "import executor",
        "executor/link.py": "from coordinator.core.state import State",
        "executor/core.py": "from executor import agent",
        "executor/agent.py": "from chaos.worlds import sim",
        "coordinator/leader.py": "from pysyncobj import SyncObj",
    }
    for path, text in offenders.items():
        assert len(check_floors([Source(path, text)])) == 1, path


def test_floors_let_a_listed_command_defer_its_import() -> None:
    text = "def dump():\n    from coordinator.raft import log"
    assert check_floors([Source("raftbatch/cli/log.py", text)]) == []


def test_deferred_lists_only_modules_that_exist() -> None:
    assert set(DEFERRED) <= {source.module for source in python_sources("raftbatch")}
