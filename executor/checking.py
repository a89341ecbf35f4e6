"""Tries a model as an executor would run it: loads it, and runs it on sample input.

Whatever is wrong with it is a value here, which names the line of the model's own file where
there is one. Nothing is caught of what nobody should catch, such as Ctrl-C.

What lives here: what is tried. What must never live here: how it is shown, a process. Called
by: `executor.trying`, in a process of its own; tests.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import executor
import raftbatch
from executor import samples
from executor.collate import INVALID_INPUT, Form
from executor.core.reports import RESULT_TOO_LARGE
from executor.core.values import Failure, Outcome
from executor.frames import Batch, Load
from executor.loading import CannotLoad
from executor.outputs import BAD_OUTPUT, NOT_FINITE
from executor.runtime import Runtime
from raftbatch import tensors
from raftbatch.signatures import bucket
from raftbatch.world import Clock, Files

_OURS = tuple(str(PurePosixPath(each.__file__ or "").parent) for each in (executor, raftbatch))
_LIBRARIES = ("/site-packages/", "/lib/python")
_EXAMPLES = f"{_OURS[0]}/examples/"
ENDED = "process_ended"
"""Code of what ended the model's own process."""

TOO_LARGE = "too_large"
"""Code of what declares more than any request carries."""

_SAMPLE_BYTES_MAX = 64 << 20  # of a batch: `max_batch_bytes`, unless the configuration says more

_WRONG = (BAD_OUTPUT, NOT_FINITE, INVALID_INPUT, RESULT_TOO_LARGE)
"""Codes of requests that failed by the model's mistake, and not by its word."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""By name."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong.

    Attributes:
        code: a slug.
        message: for people, one line.
        where: the line of the model's own code, as `mine.py:12, in predict: return …`; or empty.
    """

    code: str
    message: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One batch that was run.

    Attributes:
        requests: how many were in it.
        rows: of all of them.
        size: of free dimensions; 0: there are none.
        padded: rows, then the size of each free dimension of each input, as the model saw them.
        input_ns, infer_ns, output_ns: what it took to make the batch, to run it, to take it apart.
        refused: what the model said of requests that it refused, each once.
        problem: what is wrong; None: nothing.
    """

    requests: int
    rows: int
    size: int
    padded: tuple[int, ...] = ()
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    refused: tuple[str, ...] = ()
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a model.

    Attributes:
        name: the model's.
        class_name: of its class; empty: it was not found.
        device, detail: where it ran, and on what.
        load_ns: what loading it took, its warm-up included.
        form: what it declares; None: it was not loaded.
        outputs: the shape of each output, without the batch axis, as seen first.
        trials: what was run.
        problem: why it could not be loaded; None: it was.
    """

    name: str
    class_name: str = ""
    device: str = ""
    detail: str = ""
    load_ns: int = 0
    form: Form | None = None
    outputs: Shapes = ()
    trials: tuple[Trial, ...] = ()
    problem: Problem | None = None

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong."""
        of_trials = [each.problem for each in self.trials]
        return [each for each in (self.problem, *of_trials) if each is not None]


def check(files: Files, clock: Clock, load: Load, rows_max: int) -> Checked:
    """Return what comes of a model, in this process. See `steps` for the arguments."""
    *_, last = steps(files, clock, load, rows_max)
    return last


def steps(files: Files, clock: Clock, load: Load, rows_max: int) -> Iterator[Checked]:
    """Yield what comes of a model: before each step, if that is its end, and at last in all.

    Args:
        files: where its file is.
        clock: measures runs.
        load: what to load.
        rows_max: rows of its largest batch.
    """
    yield Checked(load.name, problem=Problem(ENDED, f"{load.name} does not load"))
    begun_ns = clock.monotonic_ns()
    with _errors() as errors:
        try:
            runtime = Runtime(files, clock, load)
        except CannotLoad as error:
            found = error.__cause__ or (errors[-1] if errors else None)
            yield Checked(load.name, problem=Problem("cannot_load", str(error), _where(found)))
            return
        load_ns = clock.monotonic_ns() - begun_ns
        trials: list[Trial] = []
        outputs: Shapes = ()

        def checked(*last: Trial) -> Checked:
            return Checked(
                load.name,
                runtime.class_name,
                runtime.backend.device,
                runtime.backend.detail,
                load_ns,
                runtime.form,
                outputs,
                (*trials, *last),
            )

        for size in samples.sizes(runtime.form) or (0,):
            row_bytes = samples.row_bytes(runtime.form, size)
            if row_bytes > _SAMPLE_BYTES_MAX:
                if not trials:
                    trials.append(Trial(1, 1, size, problem=_too_large(row_bytes)))
                break  # the next ones are larger
            most = min(rows_max, _SAMPLE_BYTES_MAX // max(1, row_bytes))
            for requests in _batches(runtime.form, most, size):
                count = len(requests), sum([rows for rows, _ in requests]), size
                yield checked(Trial(*count, problem=Problem(ENDED, "the model does not return")))
                trial, seen = _tried(runtime, requests, size, errors)
                trials.append(trial)
                outputs = outputs or seen
        yield checked()


def _too_large(row_bytes: int) -> Problem:
    said = f"one row of its inputs takes {row_bytes} bytes by what it declares"
    return Problem(TOO_LARGE, f"{said}, and no more than {_SAMPLE_BYTES_MAX} are tried")


def _batches(form: Form, rows_max: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """Yield batches, each as the rows and the size of its requests: one row, a few, a full one."""
    yield [(1, size)]
    if not form.has_batch_axis:
        return
    few, many = min(3, rows_max), rows_max
    if few > 1:
        yield [(few, size)]
    if many > few:
        # As requests that padding brings together: every other one is a little shorter.
        shorter = _shorter(form, size)
        yield [(1, shorter if place % 2 else size) for place in range(many)]


def _shorter(form: Form, size: int) -> int:
    """Return a smaller size that shares a batch with this one, if there is one."""
    free = [each for each in form.inputs if each.buckets or each.free_axes]
    if size < 2 or not all(each.buckets for each in free):  # without buckets only equals meet
        return size
    same = [bucket(size - 1, each.buckets) == bucket(size, each.buckets) for each in free]
    return size - 1 if all(same) else size


def _tried(
    runtime: Runtime, requests: list[tuple[int, int]], size: int, errors: list[BaseException]
) -> tuple[Trial, Shapes]:
    payloads = tuple([samples.payload(runtime.form, rows, own) for rows, own in requests])
    rows = tuple([each for each, _ in requests])
    errors.clear()
    found = runtime.run(Batch(1, payloads, rows, (b"",) * len(rows)))
    count = len(requests), sum(rows), size
    if isinstance(found, Failure):
        where = _where(errors[-1]) if errors else ""
        return Trial(*count, problem=Problem(found.code, found.message, where)), ()
    wrong = [each for each in found.answers if each.code in _WRONG]
    refused = [each for each in found.answers if each.code and each.code not in _WRONG]
    problem = Problem(wrong[0].code, wrong[0].message) if wrong else None
    if len(refused) == len(requests):
        problem = Problem(refused[0].code, f"it refused all of it: {refused[0].message}")
    trial = Trial(
        *count,
        found.padded,
        found.compute_input_ns,
        found.infer_ns,
        found.output_ns,
        tuple(dict.fromkeys([f"{each.code}: {each.message}" for each in refused])),
        problem,
    )
    return trial, _shapes(runtime.form, found)


def _shapes(form: Form, found: Outcome) -> Shapes:
    """Return what the first request got."""
    result = next((each.result for each in found.answers if not each.code), b"")
    places = tensors.parse(result) if result else ()
    return tuple([(each.name, each.shape[int(form.has_batch_axis) :]) for each in places])


@contextmanager
def _errors() -> Iterator[list[BaseException]]:
    """Yield what models raise, as the runtime logs it; it is logged nowhere else."""
    found: list[BaseException] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                found.append(record.exc_info[1])

    log = logging.getLogger("executor.runtime")
    handler, propagated = Keep(), log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield found
    finally:
        log.removeHandler(handler)
        log.propagate = propagated


def _where(error: BaseException | None) -> str:
    """Return the innermost line of code that is the model's, or of what it calls of its own."""
    if error is None:
        return ""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if _is_own(each.filename)]
    if not own:
        return ""
    # What it calls of a library tells less than the line that calls it.
    mine = [each for each in own if all(part not in each.filename for part in _LIBRARIES)]
    last = (mine or own)[-1]
    return f"{last.filename}:{last.lineno}, in {last.name}: {last.line}"


def _is_own(filename: str) -> bool:
    if filename.startswith(_EXAMPLES):
        return True
    return not filename.startswith(("<", *[f"{each}/" for each in _OURS]))
