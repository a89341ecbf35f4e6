"""Requests side by side, padded to buckets, and what each gets of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from executor import collate
from executor.collate import Form, Opened, Stacked, opened, together
from executor.core.values import Answer
from executor.model import ItemError, Tensor
from executor.outputs import BadOutput, split
from raftbatch import tensors

IDS = Tensor("ids", "INT64", (-1,), (4, 8))
TEXT = Tensor("text", "BYTES", (1,))
X = Tensor("x", "FP32", (2,))
FORM = Form((IDS,), (Tensor("states", "FP32", (-1, 2), like="ids"),))


def stack(form: Form, payloads: list[bytes], rows: list[int]) -> Stacked:
    """Return requests side by side, as they came."""
    return collate.stack(form, opened(form, payloads, rows))


def ids(*rows: list[int]) -> bytes:
    """Return an envelope of rows of one length."""
    data = np.array(rows, "<i8")
    return tensors.encode([tensors.Tensor("ids", "INT64", data.shape, data.tobytes())])


def x(*rows: list[float]) -> bytes:
    """Return an envelope of rows of two numbers."""
    data = np.array(rows, "<f4")
    return tensors.encode([tensors.Tensor("x", "FP32", data.shape, data.tobytes())])


def text(*texts: bytes) -> bytes:
    """Return an envelope of texts."""
    data = tensors.join_elements(texts)
    return tensors.encode([tensors.Tensor("text", "BYTES", (len(texts), 1), data)])


def outcome(result: bytes) -> Mapping[str, tuple[tuple[int, ...], Any]]:
    """Return the outputs in an envelope: shape and values."""
    found = {}
    for each in tensors.decode(result):
        if each.datatype == "BYTES":
            found[each.name] = each.shape, tensors.elements(each)
        else:
            found[each.name] = each.shape, np.frombuffer(each.data, "<f4").tolist()
    return found


def test_free_dimensions_are_padded_to_their_bucket_and_cut_off_again() -> None:
    stacked = stack(FORM, [ids([1, 2, 3], [4, 5, 6]), ids([7, 8, 9, 10, 11])], [2, 1])
    assert stacked.inputs["ids"].tolist() == [
        [1, 2, 3, 0, 0, 0, 0, 0],
        [4, 5, 6, 0, 0, 0, 0, 0],
        [7, 8, 9, 10, 11, 0, 0, 0],
    ]
    assert (stacked.rows, stacked.padded) == (3, (3, 8))
    assert stacked.lengths == {"ids": [(3,), (3,), (5,)]}
    states = np.arange(3 * 8 * 2, dtype=np.float32).reshape(3, 8, 2)
    first, second = split(FORM, stacked, {"states": states})
    assert outcome(first.result)["states"] == ((2, 3, 2), states[:2, :3].ravel().tolist())
    assert outcome(second.result)["states"] == ((1, 5, 2), states[2:, :5].ravel().tolist())


@pytest.mark.parametrize(("length", "padded"), [(1, 4), (4, 4), (5, 8), (8, 8), (9, 16), (17, 24)])
def test_length_is_padded_as_the_batch_key_has_it(length: int, padded: int) -> None:
    stacked = stack(FORM, [ids(list(range(length)))], [1])
    assert stacked.inputs["ids"].shape == (1, padded)


def test_text_is_a_list_and_what_is_no_text_fails_alone() -> None:
    form = Form((TEXT,), (TEXT,))
    stacked = stack(form, [text(b"a", "ü".encode()), text(b"\xff"), text(b"c")], [2, 1, 1])
    assert stacked.inputs == {"text": ["a", "ü", "c"]}
    answers = split(form, stacked, {"text": ["A", b"\xfc", "C"]})
    assert outcome(answers[0].result)["text"] == ((2, 1), [b"A", b"\xfc"])
    assert (answers[1].code, answers[1].result) == ("invalid_input", b"")
    assert outcome(answers[2].result)["text"] == ((1, 1), [b"C"])
    raw = Form((Tensor("text", "BYTES", (1,), text=False),), (TEXT,))
    assert stack(raw, [text(b"\xff")], [1]).inputs == {"text": [b"\xff"]}


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"no envelope", "begins with"),
        (ids([1, 2]), "'ids' is none of the model's inputs"),
        (tensors.encode([]), "the input 'x' is missing"),
        (tensors.encode([tensors.Tensor("x", "FP64", (1, 2), bytes(16))]), "wants FP32"),
        (tensors.encode([tensors.Tensor("x", "FP32", (1, 3), bytes(12))]), "wants [1, 2]"),
        (x([1, 2], [3, 4]), "wants [1, 2]"),  # more rows than it says
    ],
)
def test_request_that_is_not_what_the_model_declares_fails_alone(
    payload: bytes, message: str
) -> None:
    form = Form((X,), (X,))
    stacked = stack(form, [x([1, 2]), payload, x([3, 4])], [1, 1, 1])
    assert stacked.inputs["x"].tolist() == [[1, 2], [3, 4]]
    answers = split(form, stacked, {"x": stacked.inputs["x"]})
    assert [each.code for each in answers] == ["", "invalid_input", ""]
    assert message in answers[1].message
    assert outcome(answers[2].result)["x"] == ((1, 2), [3, 4])


def test_item_error_in_the_place_of_a_row_fails_its_request_alone() -> None:
    form = Form((X,), (X, TEXT))
    stacked = stack(form, [x([1, 2], [3, 4]), x([5, 6])], [2, 1])
    rows = [stacked.inputs["x"][0], ItemError("no", "too_odd"), stacked.inputs["x"][2]]
    answers = split(form, stacked, {"x": rows, "text": ["a", "b", "c"]})
    assert (answers[0].code, answers[0].message) == ("too_odd", "no")
    assert outcome(answers[1].result) == {"x": ((1, 2), [5, 6]), "text": ((1, 1), [b"c"])}
    answers = split(form, stacked, {"x": [ItemError("all")] * 3, "text": ["a", "b", "c"]})
    assert [each.code for each in answers] == ["item_failed"] * 2


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ItemError(KeyError("x")), "item_failed", "'x'"),  # type: ignore[arg-type]
        (ItemError("half \ud800", "c\ud800\0"), "c?", "half ?"),
        (ItemError("no", "c" * 1000), "c" * 256, "no"),
        (ItemError("no", None), "None", "no"),  # type: ignore[arg-type]
    ],
)
def test_item_error_is_made_text_that_a_record_can_carry(
    error: ItemError, code: str, message: str
) -> None:
    stacked = stack(Form((X,), (X,)), [x([1, 2])], [1])
    [answer] = split(Form((X,), (X,)), stacked, {"x": [error]})
    assert (answer.code, answer.message) == (code, message)


def test_row_that_is_not_finite_fails_its_request_where_the_model_says_so() -> None:
    finite = Form((X,), (Tensor("y", "FP32", (2,), finite=True),))
    stacked = stack(finite, [x([1, 2]), x([3, 4]), x([5, 6])], [1, 1, 1])
    outputs = {"y": np.array([[1, 2], [np.nan, 4], [5, np.inf]])}
    assert [each.code for each in split(finite, stacked, outputs)] == [
        "",
        "not_finite",
        "not_finite",
    ]
    listed = {"y": [ItemError("no"), [np.nan, 1.0], [1.0, 2.0]]}
    assert [each.code for each in split(finite, stacked, listed)] == [
        "item_failed",
        "not_finite",
        "",
    ]
    free = Form((X,), (Tensor("y", "FP32", (2,)),))
    assert [each.code for each in split(free, stacked, outputs)] == [""] * 3


def test_row_of_another_shape_fails_its_request_alone() -> None:
    form = Form((X,), (X,))
    stacked = stack(form, [x([1, 2]), x([3, 4])], [1, 1])
    answers = split(form, stacked, {"x": [[1.0], [3.0, 4.0]]})
    assert [each.code for each in answers] == ["bad_output", ""]


@pytest.mark.parametrize(
    ("declared", "rows", "message"),
    [
        (X, [[1.0, 2.0], ["a", "b"]], "'x' is <U1, which is no FP32"),
        (X, [[1.0, 2.0], None], "'x' is object, which is no FP32"),
        (X, [[1.0, 2.0], [[3.0], [4.0, 5.0]]], "'x' is no FP32"),
        (TEXT, ["a", 1], "'text' holds int, not text or bytes"),
        (TEXT, ["a", "\ud800"], "'text' holds text that is no UTF-8"),
        (TEXT, ["a", ["b", "c"]], "'text'"),
    ],
)
def test_row_that_is_not_as_declared_fails_its_request_alone(
    declared: Tensor, rows: list[Any], message: str
) -> None:
    form = Form((X,), (declared,))
    stacked = stack(form, [x([1, 2]), x([3, 4])], [1, 1])
    good, bad = split(form, stacked, {declared.name: rows})
    assert good.code == ""
    assert bad.code == "bad_output"
    assert message in bad.message


def test_rows_of_a_list_may_differ_from_request_to_request() -> None:
    form = Form((X,), (Tensor("y", "FP32", (-1,), finite=True),))
    stacked = stack(form, [x([1, 2]), x([3, 4], [5, 6]), x([7, 8], [9, 1])], [1, 2, 2])
    rows = [[1.0], [3.0, 4.0], [5.0, 6.0], [7.0], [8.0, 9.0]]
    first, second, third = split(form, stacked, {"y": rows})
    assert outcome(first.result)["y"] == ((1, 1), [1])
    assert outcome(second.result)["y"] == ((2, 2), [3, 4, 5, 6])
    assert (third.code, "different shapes in one request" in third.message) == ("bad_output", True)
    rows[1] = [np.nan, 4.0]
    assert [each.code for each in split(form, stacked, {"y": rows})][:2] == ["", "not_finite"]


def test_what_is_no_number_is_found_in_bits_and_not_in_padding() -> None:
    bits = Form((X,), (Tensor("y", "BF16", (1,), finite=True),))
    stacked = stack(bits, [x([1, 2]), x([3, 4]), x([5, 6])], [1, 1, 1])
    column = np.array([[0x3F80], [0x7F80], [0x7FC0]], np.uint16)  # 1, infinity, none
    found = [each.code for each in split(bits, stacked, {"y": column})]
    assert found == ["", "not_finite", "not_finite"]
    like = Form((IDS,), (Tensor("y", "FP32", (-1,), like="ids", finite=True),))
    stacked = stack(like, [ids([1, 2]), ids([1, 2, 3])], [1, 1])
    padded = np.array([[1, 2, np.nan, np.nan], [1, 2, np.nan, np.nan]])
    assert [each.code for each in split(like, stacked, {"y": padded})] == ["", "not_finite"]


def test_result_that_is_too_large_fails_its_request_alone() -> None:
    form = Form((X,), (TEXT, Tensor("y", "FP32", (-1,))))
    stacked = stack(form, [x([1, 2]), x([3, 4]), x([5, 6])], [1, 1, 1])
    outputs = {"text": ["a", "b" * 5000, "c"], "y": [[1.0], [2.0], np.zeros(2000)]}
    found = split(form, stacked, outputs, 4096)
    assert [each.code for each in found] == ["", "result_too_large", "result_too_large"]
    assert "what may travel is 4096" in found[1].message
    assert [each.code for each in split(form, stacked, outputs)] == [""] * 3


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "the output 'x' is missing"),
        ({"x": np.zeros((3, 2))}, "has 3 rows, and the batch 2"),
        ({"x": np.zeros((2, 3))}, "has the shape [3] for each row, and declares [2]"),
        ({"x": np.array([["a", "b"], ["c", "d"]])}, "which is no FP32"),
        ({"x": np.zeros((2, 2), complex)}, "is no FP32"),
        ({"x": 3.0}, "has 0 rows, and the batch 2"),
        ({"x": [[1.0, 2.0]]}, "has 1 rows, and the batch 2"),
    ],
)
def test_outputs_that_are_not_as_declared_fail_the_batch(
    outputs: Mapping[str, Any], message: str
) -> None:
    form = Form((X,), (X,))
    stacked = stack(form, [x([1, 2]), x([3, 4])], [1, 1])
    with pytest.raises(BadOutput) as caught:
        split(form, stacked, outputs)
    assert message in str(caught.value)


def test_model_without_a_batch_axis_gets_one_and_its_client_does_not() -> None:
    form = Form((X,), (X,), has_batch_axis=False)
    payload = tensors.encode([tensors.Tensor("x", "FP32", (2,), bytes(8))])
    stacked = stack(form, [payload], [1])
    assert stacked.inputs["x"].shape == (1, 2)
    [answer] = split(form, stacked, {"x": stacked.inputs["x"] + 1})
    assert outcome(answer.result)["x"] == ((2,), [1, 1])


FREE = Tensor("x", "FP32", (-1, -1))


def wide(*shape: int) -> bytes:
    """Return an envelope of ones."""
    data = np.ones(shape, "<f4").tobytes() if 0 not in shape else b""
    return tensors.encode([tensors.Tensor("x", "FP32", shape, data)])


def codes(found: list[Opened | Answer]) -> list[str]:
    """Return why each request fails; empty: it does not."""
    return [each.code if isinstance(each, Answer) else "" for each in found]


@pytest.mark.parametrize("signature", ["x:FP32[5,5]", "", "whatever"])
@pytest.mark.parametrize("shape", [(1, 0, 1 << 40), (1, 1 << 40, 0), (1, 0, 1 << 20)])
def test_shape_that_no_byte_stands_for_fails_alone(signature: str, shape: tuple[int, ...]) -> None:
    form = Form((FREE,), (FREE,))
    found = opened(form, [wide(1, 5, 5), wide(*shape)], [1, 1], None, signature)
    assert codes(found) == ["", "invalid_input"]
    assert collate.stack(form, found).inputs["x"].shape == (1, 5, 5)


def test_many_dimensions_that_no_byte_stands_for_fail_their_request_alone() -> None:
    """Their product is more than an array may have at all."""
    declared = Tensor("x", "FP32", (-1,) * 5)
    found = opened(Form((declared,), ()), [wide(1, 0, *[1 << 40] * 4)], [1])
    assert codes(found) == ["invalid_input"]


@pytest.mark.parametrize(
    ("declared", "payload", "signature", "code"),
    [
        (FREE, wide(1, 5, 5), "x:FP32[5,5]", ""),
        (FREE, wide(1, 5, 6), "x:FP32[5,5]", "invalid_input"),
        (FREE, wide(1, 6, 0), "x:FP32[5,5]", "invalid_input"),
        (FREE, wide(1, 5, 5), "x:FP32[5]", "invalid_input"),
        (FREE, wide(1, 5, 6), "", ""),
        (FREE, wide(1, 5, 6), "x:FP32[5,5];y:FP32[1]", ""),
        (IDS, ids([1] * 5), "ids:INT64[8]", ""),
        (IDS, ids([1] * 9), "ids:INT64[8]", "invalid_input"),
        (IDS, ids([1] * 9), "ids:INT64[10]", ""),  # by other buckets, which its client knew
        (TEXT, text(b"a" * 8), "text:BYTES[1]/8", ""),
        (TEXT, text(b"a" * 9), "text:BYTES[1]/8", "invalid_input"),
        (TEXT, text(b"a" * 9), "text:BYTES[1]", ""),
        (Tensor("text", "BYTES", (-1,)), text(b"a"), "text:BYTES[1]", ""),
        (Tensor("text", "BYTES", (-1,)), text(b"a"), "text:BYTES[0]", "invalid_input"),
    ],
)
def test_request_that_is_larger_than_the_signature_of_its_batch_fails_alone(
    declared: Tensor, payload: bytes, signature: str, code: str
) -> None:
    found = opened(Form((declared,), ()), [payload], [1], None, signature)
    assert codes(found) == [code]
    if code:
        assert "the signature of its batch has room for" in found[0].message  # type: ignore[union-attr]


def test_large_request_runs_apart_from_those_that_it_would_pad_beyond_the_bounds() -> None:
    form = Form((FREE,), (FREE,))
    small, large = wide(1, 1, 1), wide(1, 1, 1000)
    found = opened(form, [small, large, small, small], [1] * 4)
    assert together(form, found, 16_000) == [[0, 1, 2, 3]]
    assert together(form, found, 15_999) == [[0, 1, 2], [3]]
    assert together(form, found, 4000) == [[1], [0, 2, 3]]
    assert together(form, found, 10) == [[1], [0, 2], [3]]
    assert codes(found) == [""] * 4
    crossed = opened(form, [wide(1, 1, 1000), wide(1, 1000, 1)], [1, 1])
    assert together(form, crossed, 100_000) == [[0], [1]]
    assert together(form, crossed, 8_000_000) == [[0, 1]]


def test_request_that_buckets_pad_beyond_the_bounds_fails_alone() -> None:
    form = Form((Tensor("x", "FP32", (-1, -1), (4, 1000)),), ())
    found = opened(form, [wide(1, 5, 5), wide(1, 3, 3), wide(1, 4, 4)], [1] * 3)
    assert together(form, found, 1_000_000) == [[1, 2]]
    assert codes(found) == ["invalid_input", "", ""]
    assert "pad it to 4000000 bytes" in found[0].message  # type: ignore[union-attr]
    assert together(form, opened(form, [], []), 10) == []
