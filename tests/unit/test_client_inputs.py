"""Texts, numbers and arrays into requests and out of results, with numpy and without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftbatch.client import Payload, RequestFailed, Result, values
from raftbatch.client.inputs import Encoder, encode_parameters
from raftbatch.errors import InvalidRequest
from raftbatch.ids import make_request_id
from raftbatch.signatures import signature
from raftbatch.tensors import Tensor, decode, encode, join_elements
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2

TEXT = {"name": "text", "datatype": "BYTES", "dims": [1]}
X = {"name": "x", "datatype": "FP32", "dims": [2]}
IDS = {"name": "ids", "datatype": "INT64", "dims": [-1], "buckets": [4, 8]}


@pytest.fixture(params=["numpy", "plain"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with numpy, and as if it were not installed."""
    if request.param == "plain":
        monkeypatch.setattr(values, "numpy_module", lambda: None)
    else:
        pytest.importorskip("numpy")
    return str(request.param)


def encoder(*inputs: dict[str, Any], rows_max: int = 8) -> Encoder:
    """Return what makes requests for a model with these inputs."""
    config = json.dumps({"inputs": inputs}).encode()
    return Encoder(model_pb2.Model(name="m", max_batch_size=rows_max, config=config))


def echoed(made: Any) -> Result:
    """Return the result of a model that returns its inputs."""
    result = Result("id", pb.Outcome(result=made.payload))
    result.is_single = made.is_single
    return result


def listed(value: Any) -> Any:
    """Return an array as nested lists."""
    return value if isinstance(value, str | list | int | float | bool) else value.tolist()


@pytest.mark.parametrize(
    ("inputs", "value", "rows"),
    [
        ([TEXT], "grüß", 1),
        ([TEXT], ["one", "two"], 2),
        ([TEXT], [["one"], ["two"], ["three"]], 3),
        ([TEXT | {"dims": []}], "one", 1),
        ([TEXT | {"dims": []}], ["one"], 1),
        ([TEXT | {"dims": [2]}], ["one", "two"], 1),
        ([TEXT | {"dims": [2]}], [["one", "two"], ["three", "four"]], 2),
        ([X], [1, 2.5], 1),
        ([X], [[1, 2.5], [3, 4]], 2),
        ([X | {"dims": []}], 2.5, 1),
        ([IDS], [1, 2, 3], 1),
        ([IDS], [[1], [-(2**63)]], 2),
        ([X | {"datatype": "BOOL"}], [True, False], 1),
        ([X | {"datatype": "FP16"}], [0.5, 1.0], 1),
        ([X | {"datatype": "UINT8"}], [0, 255], 1),
    ],
)
def test_what_goes_in_comes_out(world: str, inputs: Any, value: Any, rows: int) -> None:
    made = encoder(*inputs).encode(value)
    assert made.rows == rows
    result = echoed(made)
    [name] = result.keys()
    found = listed(result[name])
    wanted = [each[0] for each in value] if value == [["one"], ["two"], ["three"]] else value
    assert found == wanted
    assert result.value == found if isinstance(found, str) else True
    assert type(found) is type(wanted)


def test_envelope_is_the_one_that_tensors_make(world: str) -> None:
    model = encoder(TEXT, X)
    for text in ("a", "bcd", "a", ""):
        made = model.encode({"x": [1.0, 2.0], "text": text})
        tensors = decode(made.payload)
        assert encode(tensors) == made.payload
        assert [(each.name, each.shape) for each in tensors] == [("text", (1, 1)), ("x", (1, 2))]
        assert made.signature == "text:BYTES[1];x:FP32[2]"
    assert model.encode({"text": "a", "x": [1.0, 2.0]}) == model.encode({"x": [1, 2], "text": "a"})


def test_signature_follows_lengths_though_frames_are_kept(world: str) -> None:
    model = encoder(TEXT | {"buckets": [2, 4]}, IDS)
    found = [
        model.encode({"text": text, "ids": ids}).signature
        for text, ids in (("ab", [1]), ("abcd", [1]), ("abcd", [1] * 5))
    ]
    assert found == [
        "ids:INT64[4];text:BYTES[1]/2",
        "ids:INT64[4];text:BYTES[1]/4",
        "ids:INT64[8];text:BYTES[1]/4",
    ]
    # Two texts of one length together, that differ in their longest.
    lists = [
        model.encode({"text": each, "ids": [[1], [2]]}) for each in (["ab", "ab"], ["a", "abc"])
    ]
    assert [made.signature[-1] for made in lists] == ["2", "4"]


@pytest.mark.parametrize(
    ("inputs", "value", "text"),
    [
        ([TEXT], 3, "text"),
        ([TEXT], ["a", 3], "takes texts or bytes"),
        ([TEXT], {"txt": "a"}, "missing"),
        ([TEXT], {"text": "a", "more": "b"}, "no input 'more'"),
        ([TEXT], [], "rows"),
        ([TEXT], object(), "object"),
        ([TEXT], "\ud800", "surrogate"),
        ([X], "a", "takes FP32"),
        ([X], [1.0], "takes \\[2\\]"),
        ([X], [[1.0, 2.0], [3.0]], "x"),
        ([IDS], [1.5], "ids"),
        ([IDS], [2**63], "ids"),
        ([X | {"datatype": "UINT8"}], [0, 256], "x"),
        ([X | {"datatype": "UINT8"}], [0, -1], "x"),
        ([TEXT, X], "a", "name the inputs"),
        ([TEXT, X], {"text": "a", "x": [[1.0, 2.0]]}, "batch axis"),
        ([TEXT, X], {"text": ["a", "b"], "x": [[1.0, 2.0]]}, "rows"),
    ],
)
def test_inputs_that_the_model_does_not_take_are_refused(
    world: str, inputs: Any, value: Any, text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text):
        encoder(*inputs).encode(value)


def test_model_without_a_batch_axis_takes_each_as_it_is(world: str) -> None:
    model = encoder(TEXT, X | {"dims": [-1, 2]}, rows_max=0)
    made = model.encode({"text": "a", "x": [[1.0, 2.0]] * 3})
    assert (made.rows, made.is_single, made.signature) == (1, False, "text:BYTES[1];x:FP32[3,2]")
    assert listed(echoed(made)["x"]) == [[1.0, 2.0]] * 3


def test_model_that_declares_nothing_takes_what_comes(world: str) -> None:
    model = Encoder(model_pb2.Model(name="m", max_batch_size=8))
    made = model.encode({"a": ["x", "y"], "b": [1, 2]})
    assert (made.rows, made.signature) == (2, "a:BYTES[];b:INT64[]")
    assert model.encode({"a": "x"}).is_single
    with pytest.raises(InvalidRequest, match="name the inputs"):
        model.encode("x")
    assert model.encode(Payload(b"raw", 3, "s")) == (b"raw", 3, "s", False)


def test_tensors_go_as_they_are(world: str) -> None:
    model = encoder(TEXT)
    tensor = Tensor("text", "BYTES", (2, 1), join_elements([b"\xff", b""]))
    made = model.encode({"text": tensor})
    assert made.rows == 2
    with pytest.raises(InvalidRequest, match="no text"):
        echoed(made)["text"]
    [found] = echoed(made).tensors
    assert bytes(found.data) == bytes(tensor.data)
    with pytest.raises(InvalidRequest, match="element"):
        model.encode({"text": Tensor("text", "BYTES", (1, 1), b"\1\0\0\0")})
    with pytest.raises(InvalidRequest, match="bytes"):
        encoder(X).encode({"x": Tensor("x", "FP32", (1, 2), b"short")})


def test_numpy_arrays_go_in_and_come_out() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype=">f8").reshape(3, 2)[:, ::-1]  # neither our order nor contiguous
    made = encoder(X).encode({"x": array})
    found = echoed(made)["x"]
    assert (found.dtype, found.shape, made.rows) == (numpy.float32, (3, 2), 3)
    assert (found == array).all()
    single = echoed(encoder(X).encode(array[0]))["x"]
    assert single.shape == (2,)
    texts = numpy.array(["a", "bc"], dtype=object)
    assert echoed(encoder(TEXT).encode(texts)).value == ["a", "bc"]
    halves = encoder(X | {"datatype": "BF16"}).encode([1.0, numpy.nan])
    found = echoed(halves)["x"]
    assert found[0] == 1.0
    assert numpy.isnan(found[1])
    rounded = echoed(encoder(X | {"datatype": "BF16"}).encode([1 + 2**-8, 1 + 3 * 2**-8]))["x"]
    assert rounded.tolist() == [1.0, 1 + 4 * 2**-8]  # to the even one, as everywhere
    with pytest.raises(InvalidRequest, match="beyond INT64"):
        encoder(IDS).encode(numpy.array([2**63], dtype="u8"))
    with pytest.raises(InvalidRequest, match="complex"):
        encoder(X).encode(numpy.array([1j, 2]))


def test_results_say_what_they_hold() -> None:
    made = encoder(TEXT, X).encode({"text": "a", "x": [1.0, 2.0]})
    run = pb.Run(batch=7, executor="x1")
    result = Result("id", pb.Outcome(result=made.payload, index=3, ended_index=5, at_ms=9, run=run))
    assert result.keys() == ["text", "x"]
    assert list(dict(result)) == ["text", "x"]
    assert (result.index, result.ended_index, result.at_ms) == (3, 5, 9)
    assert (result.run.batch, result.run.executor) == (7, "x1")
    with pytest.raises(KeyError, match="text, x"):
        result["y"]
    with pytest.raises(InvalidRequest, match="not one output"):
        result.value  # noqa: B018  # it raises


def test_result_that_nobody_can_read_is_the_models_fault() -> None:
    whole = encode([Tensor("text", "BYTES", (1, 1), join_elements([b"a"]))])
    elements = whole.replace(b"\1\0\0\0a", b"\xff\0\0\0a")
    assert elements != whole
    for garbage in (b"", b"other", whole[:-1], elements):
        with pytest.raises(RequestFailed, match="output of id-7 cannot be read") as caught:
            Result("id-7", pb.Outcome(result=garbage))["text"]
        assert (caught.value.code, caught.value.definite) == ("bad_output", True)
    for garbage in (b"other", whole[:-1]):
        result = Result("id-7", pb.Outcome(result=garbage))
        for read in (result.keys, lambda r=result: r.value, lambda r=result: r.tensors):
            with pytest.raises(RequestFailed, match="id-7"):
                read()


def test_parameters_are_bytes_or_json() -> None:
    assert encode_parameters(b"any") == b"any"
    assert encode_parameters({}) == b""
    assert encode_parameters({"b": 1, "a": "ü"}) == b'{"a":"\\u00fc","b":1}'
    for wrong in ({"a": b""}, {"a": float("nan")}):
        with pytest.raises(InvalidRequest, match="no JSON"):
            encode_parameters(wrong)


def test_request_ids_sort_by_time_and_are_128_bits() -> None:
    ids = [make_request_id(at_ms, bytes([255 - at_ms] * 10).hex()) for at_ms in range(5)]
    assert ids == sorted(ids)
    assert {len(each) for each in ids} == {32}
    assert make_request_id(1 << 48, bytes(10).hex()) == "0" * 32  # in the year 10889 it begins anew


def test_text_alone_is_what_it_is_by_name() -> None:
    for spec in (TEXT, TEXT | {"dims": []}, TEXT | {"buckets": [2, 4]}):
        for rows_max in (0, 8):
            model = encoder(spec, rows_max=rows_max)
            for text in ("ab", "cd", "", "", "ü", "xyz", "é", "abcdef"):
                assert model.encode(text) == model.encode({"text": text})
            model.encode("abc")
            with pytest.raises(InvalidRequest, match="surrogate"):
                model.encode("\ud800")  # three bytes, as it were


def test_signature_of_the_encoder_is_that_of_signatures() -> None:
    model = encoder(TEXT, X)
    made = model.encode({"text": ["a", "b"], "x": [[1.0, 2.0]] * 2})
    again = signature(decode(made.payload), model.declared, is_batched=True)
    assert made.signature == again


def itself(*before: Any) -> list[Any]:
    """Return a list that contains itself, behind these."""
    found = list(before)
    found.append(found)
    return found


def deep(depth: int) -> Any:
    """Return a number in so many lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


RAGGED: list[Any] = [
    [[1, 2], 3],
    [3, [1, 2]],
    [[1], [2, 3]],
    [[], [1]],
    [[1], []],
    [["a"], 3],
    [["a"], "b"],
    ["a", ["b"]],
    [[[1]], [1]],
    [(1, 2), {"a": 1}],
    itself(1),
    itself("a"),
    itself([1, 2]),
]


@pytest.mark.parametrize("datatype", ["", "BYTES", "INT64", "FP32", "BF16"])
def test_ragged_lists_are_refused(world: str, datatype: str) -> None:
    for value in RAGGED:
        with pytest.raises(InvalidRequest, match="'x' is a ragged list"):
            values.to_tensor("x", value, datatype)


@pytest.mark.parametrize("datatype", ["", "BYTES", "INT64", "FP32", "BF16"])
def test_lists_that_are_too_deep_or_contain_themselves_are_refused(
    world: str, datatype: str
) -> None:
    for value in (deep(17), deep(3000), itself(), [itself(), 1]):
        with pytest.raises(InvalidRequest, match="'x' is nested deeper than 16 lists"):
            values.to_tensor("x", value, datatype)
    assert values.to_tensor("x", deep(16)).shape == (1,) * 16


def test_small_lists_of_very_many_elements_are_refused(world: str) -> None:
    value: Any = 1
    for _ in range(8):
        value = [value] * 100
    with pytest.raises(InvalidRequest, match="'x' has more than 268435456 elements"):
        values.to_tensor("x", value, "INT64")


def test_lists_of_arrays_are_arrays_if_all_fit() -> None:
    numpy = pytest.importorskip("numpy")
    row = numpy.array([1, 2])
    for value in ([row, row], [row, [1, 2]], [[1, 2], row], [[1, 2], (1, 2)]):
        tensor = values.to_tensor("x", value)
        assert (tensor.datatype, tensor.shape) == ("INT64", (2, 2))
    for value in ([row, 1], [row, [1]], [[1], row], [row, [1, [2]]], itself(row)):
        with pytest.raises(InvalidRequest, match="'x' is"):
            values.to_tensor("x", value)

    class Own:
        def __array__(self, *_: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(InvalidRequest, match="'x' is no array of numbers"):
        values.to_tensor("x", Own())
