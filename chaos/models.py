"""The model that real executors run under chaos: it does what each text asks for, and notes it.

A text is `request id|what|filler`; its answer is `did:` and the text. `what` is one of
`ok`, `wait=SECONDS`, `item` (fails that row alone), and those that break more than
themselves: `raise`, `exit`, `segv`, `hang`, `eat` (memory without end). Only a model whose
options say `mischief = true` does these.

Where the environment has `CHAOS_RUNS`, a folder, each process writes there what it ran, before
it runs it: what never was assigned may never stand there.

What lives here: that. What must never live here: an import of the harness: an executor loads
this file alone. Called by: executors; `chaos.workloads`, for the words.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from executor.model import Batch, Context, ItemError, Tensor

RUNS = "CHAOS_RUNS"
"""The variable that names the folder of what was run."""

MISCHIEF = ("raise", "exit", "segv", "hang", "eat")
"""What breaks a batch, or the process that runs it."""

_HANG_S = 3600.0
_EATEN_BYTES = 64 << 20


def answer(text: str) -> str:
    """Return what the model makes of a text. Total."""
    return f"did:{text}"


class Obedient:
    """See the module's docstring."""

    inputs = (Tensor("text", "BYTES", (1,)),)
    outputs = (Tensor("text", "BYTES", (1,)),)

    def load(self, context: Context) -> None:
        """Read how it is to behave."""
        self._wait_s = float(context.options.get("wait_s", 0.0))
        self._mischief = bool(context.options.get("mischief", False))
        folder = os.environ.get(RUNS, "")
        self._runs = Path(folder) / f"{os.getpid()}.jsonl" if folder else None

    def predict(self, batch: Batch) -> dict[str, Any]:
        """Answer each row, or break as the worst of them asks for."""
        texts = [str(text) for text in batch.inputs["text"]]
        self._note(texts)
        if self._wait_s:
            time.sleep(self._wait_s)
        return {"text": [self._one(text) for text in texts]}

    def _note(self, texts: list[str]) -> None:
        if self._runs is None:
            return
        row = {"ns": time.monotonic_ns(), "ids": [text.partition("|")[0] for text in texts]}
        with self._runs.open("a", encoding="utf-8") as runs:
            runs.write(json.dumps(row) + "\n")

    def _one(self, text: str) -> Any:
        what = [*text.split("|", 2), "", ""][1]
        if what.startswith("wait="):
            time.sleep(float(what.removeprefix("wait=")))
        elif what == "item":
            return ItemError("this row was asked to fail", "asked_to_fail")
        elif what in MISCHIEF and self._mischief:
            _break(what)
        return answer(text)


def _break(what: str) -> None:
    match what:
        case "raise":
            raise ValueError("a row asked for it")
        case "exit":
            os._exit(3)
        case "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hang":
            time.sleep(_HANG_S)
        case "eat":
            eaten = []
            while True:
                eaten.append(bytearray(_EATEN_BYTES))
