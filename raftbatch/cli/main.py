"""The root of the command line: options common to all commands, and the groups of subcommands.

No command is implemented here. Exit status: 0 done, 1 a definite failure, 2 wrong usage, or
a file that cannot be used, 3 outcome unknown.
"""

from typing import Annotated

import typer

from raftbatch import __version__
from raftbatch.cli import config, log, members, serve, status
from raftbatch.cli.text import paragraphs

app = typer.Typer(name="raftbatch", no_args_is_help=True, pretty_exceptions_enable=False)
app.command("serve", help=paragraphs(serve.HELP))(serve.serve)
app.command("status", help=paragraphs(status.HELP))(status.status)
app.add_typer(members.app, name="members")
app.command("transfer", epilog=members.EXITS)(members.transfer)
app.add_typer(config.app, name="config")
app.add_typer(log.app, name="log")


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
    """Run the command line; the console script and `python -m raftbatch` call this."""
    app()
