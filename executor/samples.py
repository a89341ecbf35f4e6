"""Sample input for a model, made of what it declares.

    sizes(form)                lengths that are worth a try: the buckets of free dimensions
    payload(form, rows, size)  the envelope of a request

Values are small and the same each time: whole numbers are 0 and 1, as token ids of any
vocabulary are, others lie within -1 .. 1, text is English.

What lives here: that, on numpy. What must never live here: a model. Called by:
`executor.checking`. Deterministic.
"""

from __future__ import annotations

from math import prod

import numpy as np

from executor.collate import BF16, DTYPES, Form
from executor.model import FREE, Tensor
from raftbatch import tensors

SIZES = (1, 7, 64)
"""Of free dimensions that have no buckets."""

SIZES_MAX = 8
"""How many are tried, where a model has more: the smallest and the largest among them."""

_TEXT = "a sample of text, as long as it has to be: "
_TEXT_BYTES = 24  # where nothing says how long
_BF16_ONE = 0x3F80


def sizes(form: Form) -> tuple[int, ...]:
    """Return lengths to try, rising; none where nothing is free."""
    found: set[int] = set()
    for each in form.inputs:
        if each.buckets:
            found |= set(each.buckets)
        elif each.free_axes:
            found |= set(SIZES)
    rising = sorted(found)
    if len(rising) > SIZES_MAX:
        rising = [*rising[: SIZES_MAX - 1], rising[-1]]
    return tuple(rising)


def row_bytes(form: Form, size: int) -> int:
    """Return what one row takes, of a sample of this size. Total."""
    found = 0
    for each in form.inputs:
        own = min(size, each.buckets[-1]) if each.buckets else size
        item = tensors.ITEM_BYTES.get(each.datatype, 4 + max(own, _TEXT_BYTES))
        found += prod([max(own, 1) if dim == FREE else dim for dim in each.dims]) * item
    return found


def payload(form: Form, rows: int, size: int = 0) -> bytes:
    """Return the envelope of a request.

    Args:
        form: what the model declares.
        rows: of the request; 1 where it has no batch axis.
        size: of free dimensions, and of text that has buckets, in bytes; an input with smaller
            buckets gets its largest. 0: 1, and a few words.
    """
    found = []
    for each in form.inputs:
        own = min(size, each.buckets[-1]) if each.buckets else size
        dims = [max(own, 1) if dim == FREE else dim for dim in each.dims]
        shape = (rows, *dims) if form.has_batch_axis else tuple(dims)
        found.append(tensors.Tensor(each.name, each.datatype, shape, _data(each, shape, own)))
    return tensors.encode(found)


def _data(declared: Tensor, shape: tuple[int, ...], size: int) -> bytes:
    count = prod(shape)
    if declared.datatype == tensors.BYTES:
        length = size if declared.buckets and size else _TEXT_BYTES
        text = (_TEXT * (length // len(_TEXT) + 1))[:length].encode()
        return tensors.join_elements([text] * count)
    numbers = np.arange(count)
    if declared.datatype == BF16:
        return (numbers % 2 * _BF16_ONE).astype(DTYPES[BF16]).tobytes()
    if declared.datatype.startswith("FP"):
        return (numbers % 9 / 4 - 1).astype(DTYPES[declared.datatype]).tobytes()
    return (numbers % 2).astype(DTYPES[declared.datatype]).tobytes()
