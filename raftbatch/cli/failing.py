"""How a command says that it failed: a line on standard error, and with --json an object too.

What lives here: those two forms, also of what Typer finds wrong, and whether JSON is asked for.
What must never live here: what failed, or exit statuses. Called by: the commands. A command runs
alone in its process, so what its options say of all that it prints is a value of the module.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
import typer.core

from raftbatch.cli.text import printable

USAGE = "usage"
"""Code of what is wrong with the command itself, or with a file that it names."""

NO_ANSWER = "no_answer"
"""Code where nobody could be asked, or what was asked for is not there."""

_AS_JSON = [False]

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Base of all that Typer finds wrong with words; it has moved from one package to another."""


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
        _print(message, code, definite, retry_after_ms)


class Group(typer.core.TyperGroup):
    """The root of the commands: says it as an object too where Typer finds words to be wrong."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Read the words up to the command's name."""
        words = args[: args.index("--")] if "--" in args else args
        with _told("--json" in words):  # it may stand behind what is wrong: nothing has read it
            context = super().make_context(info_name, args, *more, **extra)
        context.meta[__name__] = "--json" in words
        return context

    def invoke(self, ctx: Any) -> Any:
        """Read the others, and do it."""
        with _told(ctx.meta[__name__]):
            return super().invoke(ctx)


@contextmanager
def _told(as_json: bool) -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        if as_json:
            told: Any = error
            _print(told.format_message(), USAGE)
        raise


def _print(message: str, code: str, definite: bool = True, retry_after_ms: int = 0) -> None:
    found: dict[str, object] = {"code": code, "message": message, "definite": definite}
    if retry_after_ms:
        found["retry_after_ms"] = retry_after_ms
    try:
        typer.echo(json.dumps({"error": found}))
    except (OSError, ValueError):  # it may be this that failed or was closed, and was told
        with suppress(OSError):
            sys.stdout.close()  # else Python complains when it flushes it at its end
