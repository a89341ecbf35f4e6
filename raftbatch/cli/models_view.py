"""What `raftbatch models check` prints of a model: lines and a table for people, or JSON.

What lives here: words. What must never live here: running a model. Called by: `models`.
"""

from __future__ import annotations

from typing import Any

from raftbatch.cli.text import Table, Write, counted, printable

# Of `executor.checking` and `executor.model`, which no module of the command line imports.
Checked = Any
Problem = Any
Tensor = Any


def declaration(tensor: Tensor, *, is_input: bool) -> dict[str, Any]:
    """Return a tensor as a configuration has it: what is not at its default."""
    found: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype}
    found["dims"] = list(tensor.dims)
    if tensor.buckets:
        found["buckets"] = list(tensor.buckets)
    if is_input and not tensor.text:
        found["text"] = False
    if tensor.like:
        found["like"] = tensor.like
    if tensor.finite:
        found["finite"] = True
    return found


def show(found: Checked, write: Write) -> None:
    """Print what came of a model."""
    if found.problem is not None:
        _print_problem(write, "", found.problem)
        return
    assert found.form is not None
    ms = found.load_ns / 1e6
    write(
        printable(
            f"{found.name}: {found.class_name}, loaded in {ms:.0f} ms on {found.device}, "
            f"{found.detail}"
        ),
        "bold",
    )
    shapes = dict(found.outputs)
    for title, tensors in (("takes", found.form.inputs), ("gives", found.form.outputs)):
        for each in tensors:
            buckets = f", buckets {list(each.buckets)}" if each.buckets else ""
            seen = f", seen as {list(shapes[each.name])}" if each.name in shapes else ""
            text = f"  {title}  {each.name}  {each.datatype} {list(each.dims)}{buckets}{seen}"
            write(printable(text), "")
    columns = [" requests", " rows", " length", " ms before", " ms", " ms after", "result"]
    table = Table("batches", columns, write)
    for trial in found.trials:
        times = [f"{ns / 1e6:.2f}" for ns in (trial.input_ns, trial.infer_ns, trial.output_ns)]
        result, style = "ok", ""
        if trial.problem is not None:
            times, result, style = ["-"] * 3, trial.problem.code, "red"
        counts = [str(trial.requests), str(trial.rows), str(trial.size or "-")]
        table.add([*counts, *times, printable(result)], style)
    table.flush()
    said = set()
    for trial in found.trials:
        of = f"{counted(trial.requests, 'request')}, {counted(trial.rows, 'row')}"
        of += f", length {trial.size}: " if trial.size else ": "
        if trial.problem is not None and trial.problem not in said:
            said.add(trial.problem)
            _print_problem(write, of, trial.problem)
        elif trial.refused and trial.problem is None:
            write(printable(f"{of}it refused some of it: {trial.refused[0]}"), "yellow")


def _print_problem(write: Write, of: str, problem: Problem) -> None:
    write(printable(f"{of}{problem.code}: {problem.message}"), "red")
    if problem.where:
        write(printable(f"    {problem.where}"), "")


def as_object(found: Checked) -> dict[str, Any]:
    """Return what came of a model, as JSON has it."""
    shapes = dict(found.outputs)
    inputs = () if found.form is None else found.form.inputs
    outputs = () if found.form is None else found.form.outputs
    return {
        "name": found.name,
        "class": found.class_name,
        "device": found.device,
        "detail": found.detail,
        "load_ns": found.load_ns,
        "inputs": [declaration(each, is_input=True) for each in inputs],
        "outputs": [
            declaration(each, is_input=False) | {"seen": _seen(each.name, shapes)}
            for each in outputs
        ],
        "batches": [
            {
                "requests": each.requests,
                "rows": each.rows,
                "length": each.size or None,
                "padded": list(each.padded),
                "input_ns": each.input_ns,
                "infer_ns": each.infer_ns,
                "output_ns": each.output_ns,
                "refused": list(each.refused),
                "problem": _problem(each.problem),
            }
            for each in found.trials
        ],
        "problem": _problem(found.problem),
        "ok": not found.problems,
    }


def _seen(name: str, shapes: dict[str, tuple[int, ...]]) -> list[int] | None:
    return list(shapes[name]) if name in shapes else None


def _problem(problem: Problem | None) -> dict[str, str] | None:
    if problem is None:
        return None
    return {"code": problem.code, "message": problem.message, "where": problem.where}
