"""The root of the command line: options common to all commands, and the groups of subcommands.

No command is implemented here. Exit status: 0 done, 1 a definite failure, 2 wrong usage, or
a file that cannot be used, 3 outcome unknown.
"""

import errno
import sys
from contextlib import suppress
from inspect import getdoc
from typing import Annotated

import typer

from raftbatch import __version__
from raftbatch.cli import (
    config,
    executor,
    failing,
    log,
    members,
    models,
    requests,
    serve,
    status,
    stories,
    tail,
    up,
)
from raftbatch.cli.text import paragraphs

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to standard output raises. Commands catch what their own files do."""

app = typer.Typer(
    name="raftbatch", cls=failing.Group, no_args_is_help=True, pretty_exceptions_enable=False
)
app.command("up", help=paragraphs(up.HELP))(up.up)
app.command("serve", help=paragraphs(serve.HELP))(serve.serve)
app.command("executor", help=paragraphs(executor.HELP))(executor.executor)
app.command("status", help=paragraphs(status.HELP))(status.status)
for _command in (requests.infer, requests.submit, requests.result, requests.cancel):
    app.command(help=paragraphs(getdoc(_command) or ""), epilog=paragraphs(requests.EXITS))(
        _command
    )
app.add_typer(members.app, name="members")
app.command("transfer", epilog=paragraphs(members.EXITS))(members.transfer)
app.add_typer(config.app, name="config")
log.app.command(epilog=paragraphs(tail.EXITS))(tail.tail)
log.app.command(epilog=paragraphs(tail.EXITS))(tail.show)
app.add_typer(models.app, name="models")
app.add_typer(log.app, name="log")
app.add_typer(stories.requests, name="request")
app.add_typer(stories.batches, name="batch")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"raftbatch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Durable batched inference: requests, batches and their placement are one Raft log."""


def main() -> None:
    """Run the command line; `raftbatch.__main__` calls this."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from raftbatch.realworld.process import open_standard_streams

        open_standard_streams()
    try:
        app()
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        with suppress(OSError):
            sys.stdout.close()  # else Python complains when it flushes it at its end
        typer.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        sys.exit(2)
