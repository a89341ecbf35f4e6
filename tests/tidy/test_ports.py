"""The product reaches the world through the ports of `raftbatch.world` alone.

Whatever slips past the ports is invisible to the simulation: no seed would replay it. The
exceptions are listed with their reasons, and an exception that nothing needs any more is a
complaint.
"""

import ast
from collections.abc import Iterator, Sequence

import pytest

from tests.tidy.tree import PRODUCT, Source, expect_none, python_sources

_FILES = "files are reached through World.files"
_CLOCK = "time is reached through World.clock"
_CHANCE = "randomness is reached through World.entropy"
_THREADS = "threads are reached through World.workers"
_NETWORK = "connections are reached through World.network"
_PROCESS = "processes and signals belong to the composition roots"
_UNTRUSTED = "it runs code that it reads (GUARANTEES.md, G14)"
_HIDDEN = "it hides an import from the floors"
_REAL = "the real world is handed down by the composition roots"

# A name is banned with everything below it: `os` bans `os.path`.
BANNED: dict[str, str] = {
    "os": "the operating system is reached through the ports",
    "nt": "the operating system is reached through the ports",
    "posix": "the operating system is reached through the ports",
    "ctypes": "the operating system is reached through the ports",
    "_ctypes": "the operating system is reached through the ports",
    "cffi": "the operating system is reached through the ports",
    "raftbatch.realworld": _REAL,
    "_io": _FILES,
    "bz2.open": _FILES,
    "codecs.open": _FILES,
    "dbm": _FILES,
    "fileinput": _FILES,
    "gzip": _FILES,
    "linecache": _FILES,
    "logging.FileHandler": _FILES,
    "logging.handlers": _FILES,
    "lzma.open": _FILES,
    "sqlite3": _FILES,
    "tarfile": _FILES,
    "zipfile": _FILES,
    "fcntl": _FILES,
    "glob": _FILES,
    "io.open": _FILES,
    "io.open_code": _FILES,
    "io.FileIO": _FILES,
    "mmap": _FILES,
    "builtins.open": _FILES,
    "pathlib.Path": _FILES + "; PurePath touches none",
    "pathlib.PosixPath": _FILES,
    "pathlib.WindowsPath": _FILES,
    "shutil": _FILES,
    "tempfile": _FILES,
    "datetime": _CLOCK,
    "time": _CLOCK,
    "random": _CHANCE,
    "secrets": _CHANCE,
    "uuid": _CHANCE,
    "_thread": _THREADS,
    "asyncio.to_thread": _THREADS,
    "concurrent.futures.ProcessPoolExecutor": _THREADS,
    "concurrent.futures.ThreadPoolExecutor": _THREADS,
    "concurrent.futures.process": _THREADS,
    "concurrent.futures.thread": _THREADS,
    "multiprocessing": _THREADS,
    "queue": _THREADS,
    "threading": _THREADS,
    "asyncio.open_connection": _NETWORK,
    "asyncio.open_unix_connection": _NETWORK,
    "asyncio.start_server": _NETWORK,
    "asyncio.start_unix_server": _NETWORK,
    "ftplib": _NETWORK,
    "http.client": _NETWORK,
    "http.server": _NETWORK,
    "_socket": _NETWORK,
    "urllib": _NETWORK,
    "select": _NETWORK,
    "selectors": _NETWORK,
    "socket": _NETWORK,
    "socketserver": _NETWORK,
    "ssl": _NETWORK,
    "asyncio.create_subprocess_exec": _PROCESS,
    "asyncio.create_subprocess_shell": _PROCESS,
    "_posixsubprocess": _PROCESS,
    "asyncio.subprocess": _PROCESS,
    "builtins.input": _PROCESS,
    "pty": _PROCESS,
    "signal": _PROCESS,
    "subprocess": _PROCESS,
    "dill": _UNTRUSTED,
    "cloudpickle": _UNTRUSTED,
    "builtins.eval": _UNTRUSTED,
    "builtins.exec": _UNTRUSTED,
    "marshal": _UNTRUSTED,
    "pickle": _UNTRUSTED,
    "shelve": _UNTRUSTED,
    "builtins.__builtins__": _HIDDEN,
    "builtins.__import__": _HIDDEN,
    "builtins.__loader__": _HIDDEN,
    "importlib.__import__": _HIDDEN,
    "importlib.import_module": _HIDDEN,
    "importlib.util.module_from_spec": _HIDDEN,
    "importlib.util.spec_from_file_location": _HIDDEN,
    "pkgutil": _HIDDEN,
    "runpy": _HIDDEN,
    "sys.meta_path": _HIDDEN,
    "sys.modules": _HIDDEN,
}

# Methods that do the same on any object, above all on an event loop.
BANNED_METHODS: dict[str, str] = {
    "add_signal_handler": _PROCESS,
    "create_connection": _NETWORK,
    "create_datagram_endpoint": _NETWORK,
    "create_server": _NETWORK,
    "create_unix_connection": _NETWORK,
    "create_unix_server": _NETWORK,
    "run_in_executor": _THREADS,
}

# (path, name): why that module may use it. `*` stands for every name.
ALLOWED: dict[tuple[str, str], str] = {
    ("executor/children.py", "asyncio.create_subprocess_exec"): "starts models' processes",
    ("executor/children.py", "asyncio.subprocess"): "starts models' processes",
    ("executor/children.py", "os"): "starts models' processes",
    ("executor/children.py", "signal"): "says how a model's process ended",
    ("executor/loading.py", "importlib.import_module"): "imports what an operator names",
    ("executor/loading.py", "importlib.util.module_from_spec"): "the same",
    ("executor/loading.py", "importlib.util.spec_from_file_location"): "the same",
    ("executor/loading.py", "sys.modules"): "the same",
    ("executor/trying.py", "asyncio.create_subprocess_exec"): "tries a model in its own process",
    ("executor/trying.py", "asyncio.subprocess"): "the same",
    ("executor/trying.py", "os"): "is a composition root too: a model's process",
    ("executor/trying.py", "raftbatch.realworld"): "the same",
    ("executor/trying.py", "signal"): "the same",
    ("executor/worker.py", "ctypes"): "dies with its parent",
    ("executor/worker.py", "os"): "is a composition root: a model's process",
    ("executor/worker.py", "queue"): "hears the end of its parent on a thread of its own",
    ("executor/worker.py", "raftbatch.realworld"): "is a composition root",
    ("executor/worker.py", "signal"): "leaves signals to its parent",
    ("executor/worker.py", "threading"): "hears the end of its parent on a thread of its own",
    ("raftbatch/cli/text.py", "datetime"): "shows a time that it is given, and asks for none",
    ("raftbatch/client/host.py", "*"): "the SDK runs in others' programs, and is not simulated",
    ("raftbatch/local/child.py", "os"): "ends with whoever began it",
    ("raftbatch/local/child.py", "signal"): "ends with whoever began it",
    ("raftbatch/local/child.py", "threading"): "ends with whoever began it",
    ("raftbatch/local/cluster.py", "pathlib.Path"): "has a directory on this machine",
    ("raftbatch/local/cluster.py", "raftbatch.realworld"): "is a composition root",
    ("raftbatch/local/cluster.py", "signal"): "ends processes",
    ("raftbatch/local/cluster.py", "threading"): "blocks whoever calls it",
    ("raftbatch/local/directory.py", "pathlib.Path"): "has a directory on this machine",
    ("raftbatch/local/directory.py", "raftbatch.realworld"): "is a composition root",
    ("raftbatch/local/looking.py", "raftbatch.realworld"): "reads certificates",
    ("raftbatch/local/ports.py", "socket"): "looks for free ports",
    ("raftbatch/local/processes.py", "*"): "starts processes",
    ("raftbatch/logs.py", "datetime"): "shows the time of a record, and asks for none",
    ("raftbatch/realworld/__init__.py", "raftbatch.realworld"): "it is the real world",
    ("raftbatch/realworld/connection.py", "*"): "it is the real world",
    ("raftbatch/realworld/files.py", "*"): "it is the real world",
    ("raftbatch/realworld/network.py", "*"): "it is the real world",
    ("raftbatch/realworld/process.py", "*"): "it is the real world",
    ("raftbatch/realworld/tls.py", "*"): "it is the real world",
}


# The same, inside a function only: a command is a composition root, but importing its module,
# as every other command does, must not bring the real world.
ALLOWED_IN_FUNCTIONS: dict[tuple[str, str], str] = {
    ("raftbatch/cli/calls.py", "raftbatch.realworld"): "reads configuration and certificates",
    ("raftbatch/cli/checking.py", "raftbatch.realworld"): "reads a configuration, and looks here",
    ("raftbatch/cli/executor.py", "raftbatch.realworld"): "runs an executor",
    ("raftbatch/cli/log.py", "raftbatch.realworld"): "reads the files of a coordinator",
    ("raftbatch/cli/main.py", "raftbatch.realworld"): "has closed standard streams opened",
    ("raftbatch/cli/models.py", "pathlib.Path"): "reads a model's file, or a configuration",
    ("raftbatch/cli/models.py", "raftbatch.realworld"): "runs a model",
    ("raftbatch/cli/requests.py", "raftbatch.realworld"): "lets gRPC's core say nothing",
    ("raftbatch/cli/serve.py", "raftbatch.realworld"): "runs a coordinator",
    ("raftbatch/cli/source.py", "raftbatch.realworld"): "reads the files of a coordinator",
    ("raftbatch/cli/up.py", "asyncio.to_thread"): "waits for processes beside the loop",
    ("raftbatch/cli/up.py", "pathlib.Path"): "has a directory on this machine",
    ("raftbatch/cli/up.py", "raftbatch.realworld"): "runs a local cluster",
    ("raftbatch/cli/up.py", "tempfile"): "may have a directory for its own time alone",
}


def check_ports(
    sources: Sequence[Source],
    allowed: dict[tuple[str, str], str] = ALLOWED,
    in_functions: dict[tuple[str, str], str] = ALLOWED_IN_FUNCTIONS,
) -> list[str]:
    """Complain about each use of a banned name, and each exception without a use."""
    complaints = []
    used = set()
    for source in sources:
        inside = _in_functions(source.syntax)
        for node, name, reason in banned_names(source, BANNED, BANNED_METHODS):
            listed = allowed.keys() | (in_functions.keys() if node in inside else set())
            exceptions = {(source.path, name), (source.path, "*")} & listed
            used |= exceptions
            if not exceptions:
                complaints.append(source.at(node, f"{name} is banned: {reason}"))
    unused = sorted((allowed.keys() | in_functions.keys()) - used)
    return complaints + [f"{path}: the exception for {name} is not needed" for path, name in unused]


def _in_functions(tree: ast.Module) -> set[ast.AST]:
    """Return every node that is run by a call alone."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        for inner in ast.walk(statement)
    }


def banned_names(
    source: Source, banned: dict[str, str], methods: dict[str, str]
) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield where a banned name is imported or used, the name, and why it is banned."""
    known: dict[str, str] = {}  # what a local name stands for, as in `import time as t`
    for node in source.nodes:
        for full, local, stands_for in _imported(source, node):
            known[local] = stands_for
            if name := _ban(full, banned):
                yield node, name, banned[name]
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in methods:
            yield node, node.attr, methods[node.attr]
        head, dot, rest = _dotted(node).partition(".")
        if not head or _ban(known.get(head, ""), banned):
            continue  # no name, or one whose import was complained of
        # What nothing imported is a builtin, or a name of the module's own, which no ban matches.
        name = _ban(known.get(head, f"builtins.{head}") + dot + rest, banned)
        if name:
            yield node, name, banned[name]


def _imported(source: Source, node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield what an import names in full, the local name it binds, and what that stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield alias.name, alias.asname or top, alias.name if alias.asname else top
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            full = f"{source.imported_from(node)}.{alias.name}"
            yield full, alias.asname or alias.name, full


def _dotted(node: ast.AST) -> str:
    """Return `a.b.c` for such an expression that is read, and nothing for any other."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return ""


def _ban(name: str, banned: dict[str, str]) -> str:
    """Return the banned name that is this one or one above it, and nothing if none is."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        if (above := ".".join(parts[:length])) in banned:
            return above
    return ""


def test_ports_are_the_only_way_out_in_the_tree() -> None:
    expect_none(check_ports(python_sources(*PRODUCT)))


def test_ports_let_pure_names_pass() -> None:
    text = (
        "import asyncio, errno, io\nfrom concurrent.futures import Future\n"
        "from pathlib import PurePath\ntime = 3\nfiles.open(io.BytesIO(), time)\n"
        "clock.time.now()\nasyncio.timeout(time)\n"
    )
    assert check_ports([Source("coordinator/feed.py", text)], {}, {}) == []


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "import os.path as p",
        "from os import path",
        "def f():\n    import time",
        "from time import monotonic_ns",
        "import concurrent.futures as c\nc.ThreadPoolExecutor()",
        "from concurrent.futures import ProcessPoolExecutor",
        "open('x')",
        "reader = open",
        "import builtins\nbuiltins.open('x')",
        "import pathlib\npathlib.Path('x')",
        "from pathlib import Path",
        "import asyncio\nasyncio.to_thread(f)",
        "loop.run_in_executor(None, f)",
        "eval('1')",
        "import pickle",
        "import importlib\nimportlib.import_module('coordinator')",
        "from importlib.util import module_from_spec",
        "import posix",
        "import codecs\ncodecs.open('x')",
        "from ctypes import CDLL",
        "import sqlite3",
        "from urllib.request import urlopen",
        "import sys\nsys.modules['os'].remove('x')",
        "from sys import modules",
        "from concurrent.futures.thread import ThreadPoolExecutor",
        "__builtins__['open']('x')",
        "from raftbatch.realworld import RealFiles",
        "from raftbatch import realworld",
        "import raftbatch.realworld.files as f",
        "def f():\n    from raftbatch.realworld import RealWorld",
        "from ..raftbatch import realworld",
    ],
)
def test_ports_fire_on_a_way_around_them(text: str) -> None:
    assert check_ports([Source("coordinator/feed.py", text)], {}, {}) != []


def test_ports_let_a_command_make_the_real_world_inside_its_function_alone() -> None:
    allowed = {("raftbatch/cli/log.py", "raftbatch.realworld"): "it is a command"}
    text = "from raftbatch.realworld import RealWorld"
    inside = f"def dump():\n    {text}\n    RealWorld()"
    assert check_ports([Source("raftbatch/cli/log.py", inside)], {}, allowed) == []
    for path, offender in (
        ("raftbatch/cli/log.py", f"{text}\n{inside}"),
        ("raftbatch/cli/log.py", f"{inside}\nclass A:\n    {text}"),
        ("raftbatch/cli/top.py", inside),
        ("raftbatch/cli/log.py", f"{inside}\nfrom .. import realworld"),
    ):
        assert len(check_ports([Source(path, offender)], {}, allowed)) >= 1, offender
    assert len(check_ports([], {}, allowed)) == 1


def test_ports_let_a_listed_exception_pass_for_its_module_alone() -> None:
    allowed = {("executor/server.py", "signal"): "stops on SIGTERM"}
    source = Source("executor/server.py", "import signal")
    assert check_ports([source], allowed, {}) == []
    assert check_ports([source, Source("executor/agent.py", "import signal")], allowed, {}) != []


def test_ports_fire_on_an_exception_nothing_needs() -> None:
    assert check_ports([Source("a.py", "")], {("a.py", "time"): "no longer"}, {}) != []
