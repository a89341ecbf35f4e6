"""What a request takes and gives, at a command line: inputs as they are given, outputs as shown.

What lives here: those two forms. What must never live here: calls, or what a failed one says.
Called by: `requests`.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import typer

from raftbatch.cli.calls import EXIT_FAILED, usage
from raftbatch.cli.failing import say
from raftbatch.cli.text import printable
from raftbatch.errors import InvalidRequest, RaftbatchError

if TYPE_CHECKING:
    from raftbatch.client import Result

_PREVIEW_CHARACTERS = 400
_STDIN_BYTES_MAX = 64 << 20


def inputs_of(text: str | None, named: list[str]) -> Any:
    """Return what was given, as the SDK takes it."""
    if (text is None) == (not named):
        raise usage("give one text, or --input NAME=VALUE for each input")
    if text == "-":
        try:
            found = json.loads(sys.stdin.buffer.read(_STDIN_BYTES_MAX))
        except (ValueError, RecursionError) as error:
            raise usage(f"standard input holds no JSON: {error}") from None
        if not isinstance(found, dict):
            raise usage("standard input holds no JSON object: inputs by their names")
        return _nested_well(found)
    if text is not None:
        return text
    inputs: dict[str, Any] = {}
    for each in named:
        name, equals, value = each.partition("=")
        if not equals or not name or name in inputs:
            raise usage(f"--input {each}: NAME=VALUE is wanted, and each name once")
        try:
            inputs[name] = json.loads(value)
        except ValueError:
            inputs[name] = value
        except RecursionError:
            raise usage(f"--input {name}: its value is nested too deep") from None
    return _nested_well(inputs)


def _nested_well(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs, unless nothing takes one of them, whatever the model declares."""
    from raftbatch.client.values import check_nesting

    for name, value in inputs.items():
        try:
            check_nesting(name, value)
        except InvalidRequest as error:
            raise usage(error.message) from None
    return inputs


def print_outputs(found: Result, as_json: bool) -> bool:
    """Print outputs; return whether somebody has them now, from the first to the last."""
    from raftbatch.client import RequestFailed
    from raftbatch.client.values import from_tensor

    try:
        outputs = {
            each.name: _plain(from_tensor(each, is_single=found.is_single, read=_text_or_base64))
            for each in found.tensors
        }
    except RaftbatchError as error:
        # The executor's fault, of whichever kind: nothing is wrong with what was asked.
        say(f"the outputs cannot be shown, and are kept: {error.message}", RequestFailed.slug)
        raise typer.Exit(EXIT_FAILED) from None
    is_whole = sys.stdout is not None
    if as_json:
        run = found.run
        told = {
            "request_id": found.request_id,
            "index": found.index,
            "ended_index": found.ended_index,
            "outputs": outputs,
            "run": {
                "batch": run.batch,
                "attempt": run.attempt,
                "executor": run.executor,
                "queue_ns": run.queue_ns,
                "infer_ns": run.infer_ns,
            },
        }
        typer.echo(json.dumps(told))
        return is_whole
    for name, value in outputs.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        if len(shown) > _PREVIEW_CHARACTERS:
            again = f"raftbatch result {found.request_id} --json"
            shown = f"{shown[:_PREVIEW_CHARACTERS]} ... (`{again}` shows all)"
            is_whole = False
        typer.echo(f"{printable(name)}: {printable(shown)}")
    return is_whole


def _text_or_base64(value: bytes) -> str | dict[str, str]:
    """Return an element of BYTES as JSON can have it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _plain(value: Any) -> Any:
    """Return an output as JSON has it."""
    return value.tolist() if hasattr(value, "tolist") else value
