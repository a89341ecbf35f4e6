"""A loaded model: batches in, what became of each request out.

Whatever the model raises is a value here. What lives here: loading, warming up, running.
What must never live here: a pipe, a process. Called by: `executor.worker`; tests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from executor import collate, outputs
from executor.backends import Backend, backend_of
from executor.core.reports import RESULT_TOO_LARGE
from executor.core.values import Answer, Failure, Outcome
from executor.failures import OUT_OF_MEMORY, failure_of, let_go
from executor.frames import Batch, Load
from executor.loading import CannotLoad, attribute, content_hash, load_class, said
from executor.model import NUMPY, Context, tensors_of
from executor.model import Batch as ModelBatch
from raftbatch.errors import InvalidRequest
from raftbatch.logs import fields
from raftbatch.world import Clock, Files

_LOG = logging.getLogger(__name__)

INVALID_PARAMETERS = "invalid_parameters"

_FINGERPRINT_BYTES = 16
_RESULTS_BYTES_MAX = 1 << 30  # of a batch; the executor's process holds them all at once


@dataclass(slots=True)
class _Took:
    """How long it took to make a batch, to run it, and to take it apart."""

    input_ns: int
    infer_ns: int = 0
    output_ns: int = 0


class Runtime:
    """See the module's docstring. Made loaded, and warmed up.

    Args:
        files: where the model's file is.
        clock: measures runs.
        load: what to load.

    Attributes:
        backend: how it is run.
        form: what it declares.
        class_name: of its class.

    Raises:
        CannotLoad: it cannot be; the message says why.
    """

    def __init__(self, files: Files, clock: Clock, load: Load) -> None:
        self._clock = clock
        self._load = load
        found = load_class(files, load)
        self.backend: Backend = backend_of(load, attribute(load, found, "backend", NUMPY))
        self.form = _form(load, found)
        self.class_name = str(attribute(load, found, "__name__", ""))
        folder = str(PurePosixPath(load.file).parent) if load.file else ""
        context = Context(
            load.name,
            load.version,
            self.backend.device,
            load.instance,
            load.threads,
            folder,
            load.options,
        )
        try:
            self._model = self.backend.call(found)
            self.backend.call(self._model.load, context)
        except CannotLoad:  # it says itself what is missing
            raise
        except BaseException as error:
            raise CannotLoad(f"{load.name} does not load: {said(error)}") from error
        failure = self.warm_up()
        if failure is not None:
            raise CannotLoad(f"the warm-up of {load.name} failed: {failure.message}")
        what = f"{self.backend.device}\0{self.backend.detail}\0{load.version}".encode()
        self._fingerprint = sha256(content_hash(files, load) + what).digest()

    def warm_up(self) -> Failure | None:
        """Run the model's warm-up, if it has one; return how it failed."""
        try:
            warm_up = getattr(self._model, "warmup", None)
            if warm_up is not None:
                self.backend.call(warm_up)
        except BaseException as error:  # noqa: BLE001 - a model may raise anything
            return self._failure(error)
        return None

    def run(self, batch: Batch) -> Outcome | Failure:
        """Run a batch."""
        try:
            return self._ran(batch)
        except outputs.BadOutput as error:
            return Failure(outputs.BAD_OUTPUT, str(error))
        except BaseException as error:  # noqa: BLE001 - a model may raise anything
            return self._failure(error)

    def _ran(self, batch: Batch) -> Outcome | Failure:
        begun_ns = self._clock.monotonic_ns()
        parameters, invalid = _parameters(batch.parameters)
        requests = collate.opened(self.form, batch.payloads, batch.rows, invalid, batch.signature)
        groups = collate.together(self.form, requests, self._load.padded_bytes_max)
        took = _Took(self._clock.monotonic_ns() - begun_ns)
        answers = {n: each for n, each in enumerate(requests) if isinstance(each, Answer)}
        padded: tuple[int, ...] = (0,)
        for places in groups:
            part = [requests[place] for place in places]
            found, shape = self._part(part, [parameters[place] for place in places], took)
            answers.update(zip(places, found, strict=True))
            padded = tuple(map(max, padded, shape)) if len(padded) == len(shape) else shape
        size = sum([len(each.result) for each in answers.values()])
        if size > _RESULTS_BYTES_MAX and len(answers) > 1:
            # The halves may be small enough.
            said = f"the results of the batch have {size} bytes, more than {_RESULTS_BYTES_MAX}"
            return Failure(RESULT_TOO_LARGE, said)
        return Outcome(
            tuple([answers[place] for place in range(len(requests))]),
            took.input_ns,
            took.infer_ns,
            took.output_ns,
            padded,
            self._fingerprint[:_FINGERPRINT_BYTES],
            self.backend.memory(),
        )

    def _part(
        self,
        requests: Sequence[collate.Opened | Answer],
        parameters: Sequence[Mapping[str, Any]],
        took: _Took,
    ) -> tuple[list[Answer], tuple[int, ...]]:
        """Run requests side by side; return what each gets, and the shape that ran.

        Args:
            requests: none of which has failed.
            parameters: of each.
            took: is added to.
        """
        begun_ns = self._clock.monotonic_ns()
        stacked = collate.stack(self.form, requests)
        inputs = self.backend.inputs(self.form.inputs, stacked.inputs)
        of_rows = [
            each
            for each, span in zip(parameters, stacked.spans, strict=True)
            for _ in range(span[1] if span is not None else 0)
        ]
        given = ModelBatch(inputs, stacked.rows, of_rows, stacked.lengths)
        stacked_ns = self._clock.monotonic_ns()
        found = self._predicted(given)
        ran_ns = self._clock.monotonic_ns()
        answers = outputs.split(self.form, stacked, found, self._load.result_bytes_max)
        took.input_ns += stacked_ns - begun_ns
        took.infer_ns += ran_ns - stacked_ns
        took.output_ns += self._clock.monotonic_ns() - ran_ns
        return answers, stacked.padded

    def _predicted(self, given: ModelBatch) -> Mapping[str, Any]:
        found = self.backend.call(self._model.predict, given)
        if not isinstance(found, Mapping):
            raise outputs.BadOutput(f"predict gave {type(found).__name__}, not outputs by name")
        return self.backend.outputs(found)

    def _failure(self, error: BaseException) -> Failure:
        failure = failure_of(error)
        if failure.code == OUT_OF_MEMORY:
            let_go(error)
            self.backend.recover()
        _LOG.warning("model.failed", extra=fields(model=self._load.name), exc_info=error)
        return failure


def _form(load: Load, found: type[Any]) -> collate.Form:
    """Return what is declared, by the class or, where it says nothing, by the configuration."""
    columns = []
    for key, configured in (("inputs", load.inputs), ("outputs", load.outputs)):
        try:
            of_class = tensors_of(attribute(load, found, key, ()))
            of_file = tensors_of(configured)
        except InvalidRequest as error:
            raise CannotLoad(f"{load.name}: {key}: {error.message}") from None
        if not of_class and not of_file:
            raise CannotLoad(f"{load.name}: {key} are declared neither in its class nor in TOML")
        same = [(each.name, each.datatype, each.dims, each.buckets) for each in of_class]
        if (
            of_class
            and of_file
            and sorted(same)
            != sorted([(each.name, each.datatype, each.dims, each.buckets) for each in of_file])
        ):
            raise CannotLoad(f"{load.name}: its class declares other {key} than the configuration")
        columns.append(of_class or of_file)
    return collate.Form(columns[0], columns[1], load.has_batch_axis)


def _parameters(
    given: Sequence[bytes],
) -> tuple[list[Mapping[str, Any]], dict[int, Answer]]:
    """Return the parameters of each request, and which requests have none that can be read."""
    found: list[Mapping[str, Any]] = []
    invalid: dict[int, Answer] = {}
    for place, data in enumerate(given):
        values: object = {}
        try:
            if data:
                values = json.loads(data)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            invalid[place] = Answer(b"", INVALID_PARAMETERS, "parameters are no JSON object")
            values = {}
        found.append(values)
    return found, invalid
