"""The configuration of a cluster on this machine: one's own, or the one that is built in.

What lives here: one text made of another. What must never live here: a file, a socket. Called
by: `cluster`. Total but for the error. Deterministic.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from raftbatch.config import LISTENING, TLS_FILES
from raftbatch.errors import InvalidRequest
from raftbatch.ids import is_address
from raftbatch.local import toml

Addresses = dict[str, dict[str, str]]
"""Of each node, by the key that names it: `{"n1": {"peer": "127.0.0.1:8003", …}}`."""

NAME = "local"
DATA_DIR = "data/{node}"

_PORTS = {"peer": 8003, "client": 8001, "http": 8000}
_STEP = 10  # between the ports of two nodes
_SHOWN_CHARACTERS = 100


def built_in_addresses(nodes: int) -> Addresses:
    """Return where the nodes of the built-in configuration are, if nobody else is there."""
    return {
        f"n{number + 1}": {
            key: f"127.0.0.1:{port + _STEP * number}" for key, port in _PORTS.items()
        }
        for number in range(nodes)
    }


def built_in(template: str, addresses: Addresses) -> str:
    """Return the built-in configuration, of these nodes."""
    tables = toml.document({"nodes": addresses})
    return f"{template.rstrip()}\n{tables}"


def addresses_of(values: Mapping[str, Any], path: str) -> Addresses:
    """Return where a file says that its nodes are; nowhere, where it has no table of them.

    Raises:
        InvalidRequest: it has one that names none.
    """
    found: Addresses = {}
    for node, table in _tables(values.get("nodes")):
        found[node] = {
            key: each
            for key, each in table.items()
            if isinstance(each, str) and is_address(each) and key not in LISTENING
        }
    if "nodes" in values and not found:
        raise InvalidRequest(f"{path}: nodes: there is none: a cluster needs a node")
    return found


def placed(values: Mapping[str, Any], folder: str, addresses: Addresses, heading: str) -> str:
    """Return a configuration for a folder of its own: these nodes, data beside the file.

    Args:
        values: what the file holds.
        folder: where that file is, absolute: what it names relative to itself is there still.
        addresses: of each node; what else the file says of one is kept.
        heading: a comment, to begin with.
    """
    found = {key: dict(each) if isinstance(each, dict) else each for key, each in values.items()}
    found["cluster"] = {"name": NAME, **_table(values.get("cluster"))}
    nodes = dict(_tables(values.get("nodes")))
    found["nodes"] = {
        node: {k: v for k, v in nodes.get(node, {}).items() if k not in (*LISTENING, "data_dir")}
        | at
        for node, at in addresses.items()
    }
    found["storage"] = {**_table(values.get("storage")), "data_dir": DATA_DIR}
    tls = _table(values.get("tls"))
    if tls:
        found["tls"] = {
            key: _absolute(folder, each) if key in TLS_FILES else each for key, each in tls.items()
        }
    models = _table(values.get("models"))
    if models:
        found["models"] = {
            name: _model(each, folder) if isinstance(each, dict) else each
            for name, each in models.items()
        }
    return f"# {heading}\n\n{toml.document(found)}"


def data_dir(values: Mapping[str, Any], node: str) -> str:
    """Return where a node's data is, relative to the file unless it is absolute."""
    own = dict(_tables(values.get("nodes"))).get(node, {}).get("data_dir")
    found = own or _table(values.get("storage")).get("data_dir", DATA_DIR)
    return str(found).replace("{node}", node)


def founding(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what counts when a cluster is founded, and never again: of each model, and the rest.

    What executors read is not part of it.
    """
    models = {
        f"models.{name}": {key: each for key, each in table.items() if key != "executor"}
        for name, table in _tables(values.get("models"))
    }
    return {**models, "policy": _table(values.get("policy"))}


def has_executors(values: Mapping[str, Any]) -> bool:
    """Return whether a model says which class executors run."""
    return any("executor" in table for _, table in _tables(values.get("models")))


def examples(values: Mapping[str, Any]) -> list[str]:
    """Return a request for each model that executors run, as `raftbatch infer` takes it."""
    found = []
    for name, table in _tables(values.get("models")):
        if "executor" not in table:
            continue
        inputs = [each for each in table.get("inputs") or [] if isinstance(each, dict)]
        is_text = len(inputs) == 1 and inputs[0].get("datatype") == "BYTES"
        given = "hello" if is_text or not inputs else ""
        for each in inputs if not given else ():
            dims = [size if size > 0 else 1 for size in each.get("dims", [])]
            given += f" --input {each.get('name')}=" + _zeros(each.get("datatype"), dims)
        found.append(f"{shlex.quote(name)} {given.strip()}")
    return found


def _zeros(datatype: object, dims: list[int]) -> str:
    """Return a value of these dimensions, on the command line; a short one alone."""
    one = '"hello"' if datatype == "BYTES" else "0"
    for size in reversed(dims):
        if size * len(one) > _SHOWN_CHARACTERS:
            return "..."
        one = f"[{','.join([one] * size)}]"
    return shlex.quote(one)


def executor_names(count: int, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return names for executors that no node has: `x1`, `x2` …"""
    prefix = "x"
    while any(f"{prefix}{number + 1}" in nodes for number in range(count)):
        prefix += "x"
    return tuple(f"{prefix}{number + 1}" for number in range(count))


def _model(table: dict[str, Any], folder: str) -> dict[str, Any]:
    executor = table.get("executor")
    if not isinstance(executor, dict) or not isinstance(executor.get("file"), str):
        return table
    return {**table, "executor": {**executor, "file": _absolute(folder, executor["file"])}}


def _absolute(folder: str, path: object) -> object:
    return str(PurePosixPath(folder) / path) if isinstance(path, str) else path


def _tables(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in _table(value).items():
        if isinstance(each, dict):
            yield name, each


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
