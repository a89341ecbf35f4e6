"""The encoder of all-MiniLM-L6-v2 on torch: word pieces to vectors. And its file of weights.

The model is a BERT of six layers (Devlin et al. 2018; Wang et al. 2020), the mean over whose
last layer, at length 1, stands for the text. In evaluation it is a dozen operations for each
layer, so they stand here, rather than a package that can load any model there is.

What lives here: reading weights in the form of safetensors (a length, a JSON head, raw
numbers: nothing in it is ever run), and the forward pass. What must never live here: where
weights come from, text. Called by: `executor.examples.embedder`.

Source: github.com/huggingface/safetensors, "Format"; `config.json` of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WIDTH = 384
LAYERS = 6
HEADS = 12
PIECES_MAX = 256
"""As long as texts were when the model was trained; it has 512 places."""

_EPSILON = 1e-12
_HEAD_BYTES = 8
_TYPES = {"F32": "float32", "I64": "int64"}


def tensors_in(data: bytearray, torch: Any) -> dict[str, Any]:
    """Return the tensors of a file of safetensors, by name. They share its memory.

    Raises:
        ValueError: it is no such file.
    """
    length = int.from_bytes(data[:_HEAD_BYTES], "little")
    begin = _HEAD_BYTES + length
    if begin > len(data):
        raise ValueError("the file of weights ends within its head")
    head: dict[str, Any] = json.loads(data[_HEAD_BYTES:begin])
    head.pop("__metadata__", None)
    found = {}
    for name, each in head.items():
        first, last = each["data_offsets"]
        kind = getattr(torch, _TYPES[each["dtype"]])
        flat = torch.frombuffer(
            data, dtype=kind, count=(last - first) // kind.itemsize, offset=begin + first
        )
        found[name] = flat.reshape(each["shape"])
    return found


class _Linear(NamedTuple):
    weight: Any
    bias: Any


class _Layer(NamedTuple):
    """One of the six: attention, then two layers of neurons, each added to what came in."""

    attention: _Linear  # query, key and value in one, so that it is one multiplication
    joined: _Linear
    joined_norm: _Linear
    wide: _Linear
    narrow: _Linear
    narrow_norm: _Linear


class Encoder:
    """See the module's docstring.

    Args:
        weights: by name, as `tensors_in` returns them.
        device: where to keep them, and to compute.
        torch: the module.

    Raises:
        KeyError: a weight is missing.
    """

    def __init__(self, weights: Mapping[str, Any], device: str, torch: Any) -> None:
        self._torch: Any = torch
        self._device = device

        def moved(name: str) -> Any:
            return weights[name].to(device)

        def linear(name: str) -> _Linear:
            return _Linear(moved(f"{name}.weight"), moved(f"{name}.bias"))

        self._words = moved("embeddings.word_embeddings.weight")
        # All texts are of the first kind: BERT knows two, for questions and answers.
        self._places = moved("embeddings.position_embeddings.weight") + moved(
            "embeddings.token_type_embeddings.weight"
        ).select(0, 0)
        self._norm = linear("embeddings.LayerNorm")
        self._layers = []
        for number in range(LAYERS):
            at = f"encoder.layer.{number}"
            parts = [linear(f"{at}.attention.self.{part}") for part in ("query", "key", "value")]
            attention = _Linear(*[torch.cat(column) for column in zip(*parts, strict=True)])
            self._layers.append(
                _Layer(
                    attention,
                    linear(f"{at}.attention.output.dense"),
                    linear(f"{at}.attention.output.LayerNorm"),
                    linear(f"{at}.intermediate.dense"),
                    linear(f"{at}.output.dense"),
                    linear(f"{at}.output.LayerNorm"),
                )
            )

    def encode(self, rows: Sequence[Sequence[int]]) -> Any:
        """Return a vector of length 1 for each row, `[rows, WIDTH]`, float32.

        Args:
            rows: ids of word pieces, from 1 to `PIECES_MAX`, of any lengths: the shorter ones
                are padded to the longest, which costs time, and changes no digit that counts.
        """
        torch, functional = self._torch, self._torch.nn.functional
        longest = max(map(len, rows))
        padded = [[*row, *[0] * (longest - len(row))] for row in rows]
        ids = torch.tensor(padded, device=self._device)
        lengths = torch.tensor([len(row) for row in rows], device=self._device)
        is_there = torch.arange(longest, device=self._device) < lengths[:, None]
        mask = is_there[:, None, None, :]
        x = self._normed(
            functional.embedding(ids, self._words) + self._places[:longest], self._norm
        )
        for layer in self._layers:
            x = self._after(layer, x, mask)
        x = (x * is_there[:, :, None]).sum(1) / lengths[:, None]
        return functional.normalize(x, dim=1)

    def _after(self, layer: _Layer, x: Any, mask: Any) -> Any:
        functional = self._torch.nn.functional
        rows, longest, _ = x.shape
        heads = functional.linear(x, *layer.attention).view(rows, longest, 3, HEADS, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # [rows, HEADS, longest, WIDTH / HEADS]
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = seen.transpose(1, 2).reshape(rows, longest, WIDTH)
        x = self._normed(functional.linear(seen, *layer.joined) + x, layer.joined_norm)
        wide = functional.gelu(functional.linear(x, *layer.wide))
        return self._normed(functional.linear(wide, *layer.narrow) + x, layer.narrow_norm)

    def _normed(self, x: Any, norm: _Linear) -> Any:
        return self._torch.nn.functional.layer_norm(x, (WIDTH,), *norm, _EPSILON)
