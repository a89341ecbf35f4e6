"""What a request is given on the command line, or on standard input.

What lives here: reading that. What must never live here: what a model declares (the SDK). Called
by: `infer`, `submit`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from raftbatch.cli.calls import usage
from raftbatch.errors import InvalidRequest

_STDIN_BYTES_MAX = 64 << 20


def given_inputs(text: str | None, named: list[str]) -> Any:
    """Return what was given, as the SDK takes it; wrong usage where no model could take it.

    Args:
        text: the one text; `-`: inputs as JSON on standard input; None: there is none.
        named: NAME=VALUE for each input.
    """
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
