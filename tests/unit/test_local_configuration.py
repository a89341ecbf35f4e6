"""The configuration of a local cluster: one text made of another, and TOML that reads the same."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.config import executor_config
from raftbatch.config import load, parse
from raftbatch.errors import InvalidRequest
from raftbatch.local import configuration, toml
from raftbatch.realworld import RealFiles

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    _TEXT,
    st.datetimes(),
)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=12,
)

ADDRESSES = {"n1": {"peer": "127.0.0.1:1", "client": "127.0.0.1:2"}}


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_toml_reads_as_it_was_written(values: dict[str, Any]) -> None:
    assert tomllib.loads(toml.document(values)) == values


@pytest.mark.parametrize("nodes", [1, 3, 5])
def test_built_in_configuration_is_right(tmp_path: Path, nodes: int) -> None:
    template = resources.files("raftbatch.local").joinpath("cluster.toml").read_text("utf-8")
    path = tmp_path / "cluster.toml"
    text = configuration.built_in(template, configuration.built_in_addresses(nodes))
    path.write_text(text, "utf-8")
    found = load(RealFiles(), str(path))
    assert len(found.nodes) == nodes
    assert found.node("n1").client == "127.0.0.1:8001"
    assert [each.load.name for each in executor_config(found, "x1", 1).models] == ["echo"]
    assert configuration.examples(tomllib.loads(text)) == ["echo hello"]


def test_placed_configuration_keeps_what_is_meant() -> None:
    text = """
    [cluster]
    name = "mine"
    [nodes.a]
    peer = "10.0.0.1:8003"
    client = "10.0.0.1:8001"
    client_listen = "0.0.0.0:8001"
    data_dir = "/var/a"
    [tls]
    ca = "certs/ca.pem"
    cert = "/etc/{node}.pem"
    [storage]
    data_dir = "/var/{node}"
    segment_bytes = 1_048_576
    [models.m.executor]
    file = "models/m.py"
    class = "M"
    """
    values = parse(text, "mine.toml")
    assert configuration.addresses_of(values, "mine.toml") == {
        "a": {"peer": "10.0.0.1:8003", "client": "10.0.0.1:8001"}
    }
    found = tomllib.loads(
        configuration.placed(values, "/srv/me", {"a": ADDRESSES["n1"]}, "Made by a test.")
    )
    assert found == {
        "cluster": {"name": "mine"},
        "nodes": {"a": ADDRESSES["n1"]},
        "tls": {"ca": "/srv/me/certs/ca.pem", "cert": "/etc/{node}.pem"},
        "storage": {"data_dir": "data/{node}", "segment_bytes": 1_048_576},
        "models": {"m": {"executor": {"file": "/srv/me/models/m.py", "class": "M"}}},
    }


def test_placed_configuration_of_models_alone_has_nodes_and_a_name() -> None:
    values = parse('[models.m]\nversion = "2"\n', "m.toml")
    assert configuration.addresses_of(values, "m.toml") == {}
    found = tomllib.loads(configuration.placed(values, "/", ADDRESSES, ""))
    assert found["cluster"] == {"name": "local"}
    assert found["nodes"] == ADDRESSES
    assert found["models"] == {"m": {"version": "2"}}
    assert not configuration.has_executors(found)


def test_data_is_where_the_file_says() -> None:
    values: dict[str, Any] = {"nodes": {"a": {"data_dir": "/srv/a"}, "b": {}}}
    assert configuration.data_dir(values, "a") == "/srv/a"
    assert configuration.data_dir(values, "b") == "data/b"
    values["storage"] = {"data_dir": "disk/{node}/now"}
    assert configuration.data_dir(values, "b") == "disk/b/now"


def test_what_is_no_configuration_is_said() -> None:
    with pytest.raises(InvalidRequest, match=r"a\.toml: Expected"):
        parse("[a", "a.toml")
    with pytest.raises(InvalidRequest, match=r"a\.toml: nodes: there is none"):
        configuration.addresses_of({"nodes": {}}, "a.toml")


def test_executors_have_names_that_no_node_has() -> None:
    assert configuration.executor_names(2, ["n1"]) == ("x1", "x2")
    assert configuration.executor_names(2, ["x2"]) == ("xx1", "xx2")


def test_examples_are_commands_that_fit_the_inputs() -> None:
    inputs = [
        {"name": "ids", "datatype": "INT64", "dims": [-1, 2]},
        {"name": "text", "datatype": "BYTES", "dims": [1]},
        {"name": "image", "datatype": "FP32", "dims": [3, 224, 224]},
    ]
    values = {"models": {"a b": {"inputs": inputs, "executor": {}}, "c": {"inputs": inputs}}}
    assert configuration.examples(values) == [
        "'a b' --input ids='[[0,0]]' --input text='[\"hello\"]' --input image=..."
    ]
