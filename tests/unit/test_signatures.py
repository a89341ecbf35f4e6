"""What models declare, and which requests it lets meet in a batch."""

from __future__ import annotations

import doctest
import json

import pytest

from raftbatch import signatures
from raftbatch.errors import InvalidRequest
from raftbatch.signatures import bucket, parse, signature
from raftbatch.tensors import Tensor, join_elements


def declared(*inputs: dict[str, object]) -> signatures.Declared:
    """Return the declaration of a model with these inputs."""
    return parse(json.dumps({"inputs": inputs, "outputs": []}).encode())


def texts(*elements: bytes) -> Tensor:
    """Return a text for each row."""
    return Tensor("text", "BYTES", (len(elements), 1), join_elements(elements))


def test_signature_leaves_the_batch_axis_out_and_sorts_by_name() -> None:
    x = Tensor("x", "FP32", (2, 3), bytes(24))
    a = Tensor("a", "INT64", (2,), bytes(16))
    for order in ([x, a], [a, x]):
        assert signature(order, parse(b""), is_batched=True) == "a:INT64[];x:FP32[3]"
    assert signature([x], parse(b""), is_batched=False) == "x:FP32[2,3]"


def test_signature_lets_lengths_of_one_bucket_meet() -> None:
    spec = declared({"name": "ids", "datatype": "INT8", "dims": [-1, 2], "buckets": [64, 128]})
    found = [
        signature([Tensor("ids", "INT8", (1, n, 2), bytes(2 * n))], spec, is_batched=True)
        for n in (0, 57, 61, 64, 65, 129, 300)
    ]
    assert found == [f"ids:INT8[{n},2]" for n in (64, 64, 64, 64, 128, 256, 384)]


def test_signature_lets_texts_of_like_length_meet_where_the_model_says_so() -> None:
    spec = declared({"name": "text", "datatype": "BYTES", "dims": [1], "buckets": [4, 8]})
    found = [
        signature([texts(*each)], spec, is_batched=True)
        for each in ([b""], [b"abc", b"a"], [b"a", b"abcde"], [b"a" * 17])
    ]
    assert found == [f"text:BYTES[1]/{n}" for n in (4, 4, 8, 24)]
    plain = declared({"name": "text", "datatype": "BYTES", "dims": [1]})
    assert signature([texts(b"a" * 17)], plain, is_batched=True) == "text:BYTES[1]"


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (
            Tensor("y", "FP32", (1, 3), bytes(12)),
            "'x' is missing, and .* none that is called 'y'",
        ),
        (Tensor("x", "FP64", (1, 3), bytes(24)), "takes FP32"),
        (Tensor("x", "FP32", (1, 2), bytes(8)), "takes \\[3\\]"),
        (Tensor("x", "FP32", (3,), bytes(12)), "takes \\[3\\]"),
        (Tensor("x", "FP32", (), bytes(4)), "no batch axis"),
    ],
)
def test_signature_refuses_what_the_model_does_not_take(tensor: Tensor, text: str) -> None:
    spec = declared({"name": "x", "datatype": "FP32", "dims": [3]})
    with pytest.raises(InvalidRequest, match=text):
        signature([tensor], spec, is_batched=True)


def test_signature_refuses_an_input_too_many() -> None:
    spec = declared({"name": "x", "datatype": "FP32", "dims": []})
    both = [Tensor(name, "FP32", (1,), bytes(4)) for name in "xy"]
    with pytest.raises(InvalidRequest, match="no input 'y'"):
        signature(both, spec, is_batched=True)
    many = [Tensor("n" * 200 + str(n), "FP32", (1,), bytes(4)) for n in range(30)]
    with pytest.raises(InvalidRequest, match="at most 4096"):
        signature(many, parse(b""), is_batched=True)


@pytest.mark.parametrize(
    "config",
    [
        b"{",
        b"[]",
        b'{"inputs": {}}',
        b'{"inputs": [{"name": "x"}]}',
        b'{"inputs": [{"name": "", "datatype": "FP32"}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP31"}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "dims": [0]}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "dims": [-2]}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "dims": [true]}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "dims": 3}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "dims": [-1], "buckets": [8, 4]}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "dims": [-1], "buckets": [0]}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32"}, {"name": "x", "datatype": "FP32"}]}',
    ],
)
def test_declaration_that_is_none_is_refused(config: bytes) -> None:
    with pytest.raises(InvalidRequest, match="cannot be read"):
        parse(config)


def test_bucket_is_the_next_above_and_beyond_the_largest_a_multiple() -> None:
    assert [bucket(n, (4, 8)) for n in (0, 4, 5, 8, 9, 16, 17)] == [4, 4, 8, 8, 16, 16, 24]
    assert bucket(7, ()) == 7


def test_signatures_example_holds() -> None:
    assert doctest.testmod(signatures).failed == 0
