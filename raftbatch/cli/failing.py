"""How a command says that it failed: a line on standard error, and with --json an object too.

What lives here: those two forms, and whether JSON is asked for. What must never live here: what
failed, or exit statuses. Called by: the commands. A command runs alone in its process, so what its
options say of all that it prints is a value of the module.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import typer

from raftbatch.cli.text import printable

USAGE = "usage"
"""Code of what is wrong with the command itself, or with a file that it names."""

NO_ANSWER = "no_answer"
"""Code where nobody could be asked, or what was asked for is not there."""

_AS_JSON = [False]


def note_json(value: bool) -> bool:
    """Take in whether JSON is asked for: the callback of each `--json`."""
    _AS_JSON[0] = value
    return value


def say(
    message: str, code: str, *, definite: bool = True, retry_after_ms: int = 0, text: str = ""
) -> None:
    """Say why a command failed.

    Args:
        message: why.
        code: the error's slug, or one of those above.
        definite: whether nothing was done.
        retry_after_ms: how long to wait before another try; 0: nobody says.
        text: what a person is told instead, who needs more words; empty: the message.
    """
    typer.echo(f"Error: {printable(text or message)}", err=True)
    if _AS_JSON[0]:
        found: dict[str, object] = {"code": code, "message": message, "definite": definite}
        if retry_after_ms:
            found["retry_after_ms"] = retry_after_ms
        try:
            typer.echo(json.dumps({"error": found}))
        except OSError:  # it may be this that failed: the line has said so
            with suppress(OSError):
                sys.stdout.close()  # else Python complains when it flushes it at its end
