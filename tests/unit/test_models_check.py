"""`raftbatch models check` runs a model on sample input, and names what is wrong with it."""

from __future__ import annotations

import json
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from executor import checking, samples, trying
from executor.checking import Checked
from executor.collate import DTYPES, Form, opened, stack
from executor.frames import Load
from executor.model import Tensor
from raftbatch.cli.main import app
from raftbatch.realworld import RealClock, RealFiles

MODEL = """
import json
import numpy as np
from executor.model import ItemError, Tensor

class Good:
    inputs = [Tensor("x", "FP32", (-1,), buckets=(4, 8))]
    outputs = [Tensor("y", "FP32", (-1,), like="x"), Tensor("n", "INT64")]

    def load(self, context):
        print("noise")

    def predict(self, batch):
        x = batch.inputs["x"]
        return {"y": x * 2, "n": np.full(batch.rows, x.shape[1])}
"""

WRONG = """
class Wrong(Good):
    def predict(self, batch):
        x = batch.inputs["x"]
        {body}
"""


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))  # a model's folder is added to it


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try models in this process: starting another for each takes a while."""

    async def tried(load: Load, rows_max: int, say: object) -> Checked:
        with redirect_stdout(sys.stderr):
            return checking.check(RealFiles(), RealClock(), load, rows_max)

    monkeypatch.setattr(trying, "tried", tried)


def check(folder: Path, *words: str, model: str = MODEL) -> Result:
    """Run the command on a file there."""
    (folder / "mine.py").write_text(model, "utf-8")
    return CliRunner().invoke(app, ["models", "check", *words], env={"COLUMNS": "200"})


def test_good_model_is_run_at_each_size_and_its_tables_are_written(tmp_path: Path) -> None:
    file = str(tmp_path / "mine.py")
    told = check(tmp_path, file, "--json")
    assert told.exit_code == 0, told.output
    assert told.stderr == "noise\n"
    found = json.loads(told.stdout)
    [model] = found["models"]
    assert (model["name"], model["class"], model["ok"]) == ("mine", "Good", True)
    runs = [(each["requests"], each["rows"], each["length"]) for each in model["batches"]]
    assert runs == [(1, 1, 4), (1, 3, 4), (32, 32, 4), (1, 1, 8), (1, 3, 8), (32, 32, 8)]
    assert [each["padded"] for each in model["batches"]][-1] == [32, 8]
    assert [each["seen"] for each in model["outputs"]] == [[4], []]
    tables = tomllib.loads(check(tmp_path, file, "--toml").stdout)
    assert tables == tomllib.loads(found["toml"])
    served = tables["models"]["mine"]
    assert served["executor"] == {"file": file, "class": "Good"}
    assert served["inputs"] == [{"name": "x", "datatype": "FP32", "dims": [-1], "buckets": [4, 8]}]
    shown = check(tmp_path, file)
    assert "takes  x  FP32 [-1], buckets [4, 8]" in shown.stdout
    assert "[models.mine.executor]" in shown.stdout


@pytest.mark.parametrize(
    ("body", "said", "where"),
    [
        ('return {"y": x}', "bad_output: the output 'n' is missing", ""),
        ('return {"y": x, "n": x[:, 0]}', "bad_output: 'n' is float32, which is no INT64", ""),
        ('return {"y": x[:, 0], "n": [1] * len(x)}', "'y' has the shape [] for each row", ""),
        (
            'return {"y": x, "n": [1]}',
            "1 request, 3 rows, length 4: bad_output: 'n' has 1 rows",
            "",
        ),
        ("return None", "bad_output: predict gave NoneType", ""),
        (
            'return json.loads("{")',
            "model_failed: JSONDecodeError: Expecting",
            'mine.py:20, in predict: return json.loads("{")',
        ),
        (
            'return {"y": x, "n": [ItemError("not this", "odd")] * len(x)}',
            "odd: it refused all of it: not this",
            "",
        ),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_is_wrong_with_a_model_is_named(
    tmp_path: Path, body: str, said: str, where: str
) -> None:
    text = MODEL + WRONG.format(body=body)
    told = check(tmp_path, f"{tmp_path / 'mine.py'}:Wrong", model=text)
    assert told.exit_code == 1
    assert said in told.stdout
    assert where in told.stdout
    assert "Traceback" not in told.output
    assert "[models.mine" not in told.stdout


@pytest.mark.parametrize(
    ("model", "words", "status", "said"),
    [
        ("def f(:", "mine.py", 1, "mine.py:1: def f(:"),
        ("import nothing_like_it", "mine.py", 1, "No module named 'nothing_like_it'"),
        ("x = 1", "mine.py", 1, "has no class with `predict`"),
        (MODEL + WRONG.format(body=""), "mine.py", 1, "several classes with `predict`: name one"),
        (MODEL, "mine.py:Better", 1, "has no class 'Better', only Good"),
        (MODEL, "other.py", 2, "there is no such Python file"),
        (MODEL.replace('print("noise")', '{}["weights"]'), "mine.py", 1, 'load: {}["weights"]'),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_cannot_be_loaded_is_said(
    tmp_path: Path, model: str, words: str, status: int, said: str
) -> None:
    told = check(tmp_path, str(tmp_path / words), model=model)
    assert told.exit_code == status
    assert said in told.output
    assert "Traceback" not in told.output


@pytest.mark.parametrize(
    ("place", "status", "said", "how"),
    [
        ('print("noise")', 1, "mine does not load: it ended its process", "exited with status 7"),
        ('x = batch.inputs["x"]', 2, "the model does not return: it ended", "status 7"),
    ],
)
def test_model_that_ends_its_process_is_told_of(
    tmp_path: Path, place: str, status: int, said: str, how: str
) -> None:
    """Where it loads, and, in batches of three rows and more, where it predicts."""
    ends = 'import os; getattr(locals().get("batch"), "rows", 9) > 2 and os._exit(7); '
    told = check(
        tmp_path, str(tmp_path / "mine.py"), "--json", model=MODEL.replace(place, ends + place)
    )
    assert told.exit_code == 1
    [model] = json.loads(told.stdout)["models"]
    problems = [each["problem"] for each in (model, *model["batches"])]
    assert len(problems) == 1 + 2 * (status - 1)
    [problem] = [each for each in problems if each is not None]
    assert problem["code"] == "process_ended"
    assert said in problem["message"]
    assert how in problem["message"]


X = 'Tensor("x", "FP32", (-1,), buckets=(4, 8))'
HIDES = """
class Meta(type):
    def __getattribute__(self, name):
        if name == "{}":
            raise RuntimeError("no")
        return super().__getattribute__(name)

class Good(metaclass=Meta):
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (f"[{X}]", "5", "inputs: a int is no list of tensors"),
        (f"[{X}]", "{1: 2}", "inputs: a dict is no list of tensors"),
        (X, "5", "inputs: a int in the list is no tensor"),
        (X, "None", "inputs: a NoneType in the list is no tensor"),
        (X, '{"name": "x"}', "missing 1 required positional argument: 'datatype'"),
        (X, '{"name": "x", "datatype": []}', "x: datatype [] is unknown"),
        (X, '{"name": 5, "datatype": "FP32"}', "a name is 5: it is text of 1 to 256 characters"),
        (X, '{"name": "\x1b[31m", "datatype": "FP32"}', "a name is '\\x1b[31m'"),
        (X, '{"name": "x", "datatype": "FP32", "dims": 5}', "x: dims are no list of whole"),
        (X, '{"name": "x", "datatype": "FP32", "dims": ["a"]}', "x: dims are no list of whole"),
        (X, '{"name": "x", "datatype": "FP32", "like": 5}', "x: like is a name"),
        ('"FP32", (-1,)', '"FP32", (2**40,)', "x: dims [1099511627776] make 4398046511104 bytes"),
        ('"FP32", (-1,)', '"FP32", (1,) * 16', "at most 1073741824, of 15 dims"),
        ("(4, 8)", "(2**62,)", "x: buckets [4611686018427387904] are beyond 1073741824"),
        ("(4, 8)", "(2**28,)", "too_large: one row of its inputs takes 1073741824 bytes"),
        ("inputs = ", "backend = 5; inputs = ", "its backend is a int, and no text"),
        ("class Good:", HIDES.format("inputs"), "asking for its inputs failed: RuntimeError: no"),
        ("class Good:", HIDES.format("backend"), "asking for its backend failed: RuntimeError"),
        ("class Good:", HIDES.format("predict"), "not let itself be looked at: RuntimeError: no"),
        (
            "    def predict",
            "    @property\n    def warmup(self):\n        raise OSError\n    def predict",
            "the warm-up of mine failed: OSError",
        ),
    ],
)
@pytest.mark.usefixtures("here")
def test_declaration_that_makes_no_sense_is_named_in_one_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in MODEL
    told = check(tmp_path, f"{tmp_path / 'mine.py'}:Good", model=MODEL.replace(old, new))
    assert told.exit_code == 1
    assert "Traceback" not in told.output
    assert "ended its process" not in told.output
    [line] = [each for each in told.stdout.splitlines() if said in each]
    assert line


@pytest.mark.usefixtures("here")
def test_batches_are_as_large_as_one_may_be(tmp_path: Path) -> None:
    """Of rows of 24 MiB there are two."""
    large = MODEL.replace("(-1,), buckets=(4, 8))", "(6 << 20,))").replace(
        '"FP32", (-1,), like="x")', '"FP32", (6 << 20,))'
    )
    told = check(tmp_path, f"{tmp_path / 'mine.py'}:Good", "--json", model=large)
    [model] = json.loads(told.stdout)["models"]
    assert [each["rows"] for each in model["batches"]] == [1, 2]
    assert [each["problem"]["code"] for each in model["batches"]] == ["result_too_large"] * 2


def test_model_that_closes_what_is_not_its_own_is_told_of(tmp_path: Path) -> None:
    closes = MODEL.replace('print("noise")', "import os; os.closerange(3, 100)")
    told = check(tmp_path, str(tmp_path / "mine.py"), model=closes)
    assert told.exit_code == 1
    assert "it closed file descriptors that are not its own" in told.stdout
    assert "Traceback" not in told.output


@pytest.mark.parametrize(
    "nodes", ["", '[cluster]\nname="a"\n[nodes.n1]\npeer="[::1]:1"\nclient="[::1]:2"\n']
)
def test_models_of_a_configuration_are_tried(tmp_path: Path, nodes: str) -> None:
    config = tmp_path / "mine.toml"
    table = (
        '[models.b]\nmax_batch_size = 2\n[models.b.executor]\nfile = "mine.py"\nclass = "Good"\n'
    )
    config.write_text(nodes + table + table.replace("models.b", "models.a"), "utf-8")
    told = check(tmp_path, "--config", str(config), "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)["models"]
    assert [each["name"] for each in found] == ["a", "b"]
    assert [each["rows"] for each in found[0]["batches"]] == [1, 2, 1, 2]
    told = check(tmp_path, "a", "--config", str(config), "--json")
    assert [each["name"] for each in json.loads(told.stdout)["models"]] == ["a"]
    told = check(tmp_path, "c", "--config", str(config))
    assert (told.exit_code, "there is no model 'c', only a, b" in told.stderr) == (2, True)


def test_check_says_what_it_wants(tmp_path: Path) -> None:
    for words in ([], ["mine.py", "--toml", "--json"], ["--config", str(tmp_path / "none.toml")]):
        told = check(tmp_path, *words)
        assert told.exit_code == 2
        assert told.stderr.startswith("Error: ")


@pytest.mark.parametrize("datatype", [*DTYPES, "BYTES"])
@pytest.mark.parametrize("has_batch_axis", [True, False])
def test_samples_are_what_is_declared(datatype: str, has_batch_axis: bool) -> None:
    buckets: dict[str, Any] = {"buckets": (3, 9)}
    inputs = (
        Tensor("a", datatype, (2, -1), **(buckets if datatype != "BYTES" else {})),
        Tensor("b", datatype),
    )
    form = Form(inputs, (), has_batch_axis)
    rows = 4 if has_batch_axis else 1
    for size in samples.sizes(form):
        found = stack(form, opened(form, [samples.payload(form, rows, size)], [rows]))
        assert found.answers == {}
        assert found.rows == rows
    assert samples.sizes(form) == ((3, 9) if datatype != "BYTES" else samples.SIZES)


def test_samples_are_of_few_sizes() -> None:
    many = Form((Tensor("a", "INT8", (-1,), buckets=tuple(range(1, 100))),), ())
    assert samples.sizes(many) == (1, 2, 3, 4, 5, 6, 7, 99)
    assert samples.sizes(Form((Tensor("a", "INT8", (2,)),), ())) == ()
