"""What a cluster's file tells an executor, and what is wrong with it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from executor.config import ExecutorConfig, executor_config
from raftbatch.config import load
from raftbatch.errors import InvalidRequest
from raftbatch.realworld import RealFiles
from tests.tidy.tree import ROOT

NODES = """
[cluster]
name = "test"
[nodes.n1]
peer = "127.0.0.1:1001"
client = "127.0.0.1:1002"
"""

MODELS = """
[models.echo]
version = "3"
max_batch_size = 0
execution_timeout_microseconds = 2_500_000
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
file = "models/echo.py"
class = "Echo"
instances = 2
prefetch = 3
options = { deep = { a = 1 } }
[models.other]
[models.other.executor]
module = "a.b"
class = "Other"
threads = 5
device = "cpu"
[models.elsewhere]
"""


def read(folder: Path, models: str, *names: str, cpus: int = 8) -> ExecutorConfig:
    """Return what a file says to an executor."""
    file = folder / "cluster.toml"
    file.write_text(NODES + models, encoding="utf-8")
    return executor_config(load(RealFiles(), str(file)), "gpu-1", cpus, names)


def test_file_tells_what_runs_where(tmp_path: Path) -> None:
    config = read(tmp_path, MODELS)
    echo, other = config.models
    assert (echo.id, echo.instances, echo.prefetch) == (("echo", "3"), 2, 3)
    assert (echo.timeout_s, other.timeout_s) == (2.5, 30.0)
    assert (echo.load.file, echo.load.module) == (str(tmp_path / "models/echo.py"), "")
    assert (echo.load.has_batch_axis, other.load.has_batch_axis) == (False, True)
    assert echo.load.options == {"deep": {"a": 1}}
    assert (other.load.module, other.load.device) == ("a.b", "cpu")
    assert config.slots == 2 + 3 + 1 + 1
    assert config.addresses == {"n1": "127.0.0.1:1002"}
    named = [(each.name, each.instance, each.threads) for each in config.loads]
    assert named == [("echo", 0, 2), ("echo", 1, 2), ("other", 0, 5)], "each its part of the CPUs"
    assert [each.id for each in read(tmp_path, MODELS, "other", cpus=1).models] == [("other", "1")]


@pytest.mark.parametrize(
    ("models", "names", "message"),
    [
        ("", (), "models: no model has a table [models.NAME.executor]"),
        (MODELS, ("echi",), "there is no model 'echi', only echo, elsewhere, other"),
        (MODELS, ("elsewhere",), "models.elsewhere.executor is missing"),
        (MODELS + "executor = 3", (), "models.elsewhere.executor is 3, which is no table"),
        (MODELS.replace("class", "clas", 1), (), "models.echo.executor.clas is unknown"),
        (MODELS.replace('module = "a.b"', 'module = "a"\nfile = "b"'), (), "and not both"),
        (MODELS.replace("instances = 2", "instances = 65"), (), "instances is 65"),
        (MODELS.replace("prefetch = 3", "prefetch = 1024"), (), "ask for 1028 slots: 1024"),
        (MODELS.replace("BYTES", "TEXT"), (), "models.echo.inputs text: datatype 'TEXT'"),
        (MODELS.replace("[{ name", "[3, { name"), (), "which is no list of tables"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, models: str, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(tmp_path, models, *names)
    assert message in str(caught.value)
    assert "cluster.toml" in str(caught.value)


@pytest.mark.parametrize("path", sorted((ROOT / "cluster_configs").glob("local-*.toml")), ids=str)
def test_cluster_configs_give_an_executor_the_echo(path: Path) -> None:
    config = executor_config(load(RealFiles(), str(path)), "gpu-1", 2)
    assert [each.load.module for each in config.models] == ["executor.examples.echo"]
    declared = tomllib.loads(path.read_text(encoding="utf-8"))["models"]["echo"]
    for way in ("inputs", "outputs"):  # so that a client may send a bare text
        assert [each["name"] for each in declared[way]] == ["text"]
