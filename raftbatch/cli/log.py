"""Commands that look at a node's log: the group; the commands come with what they look at."""

import typer

app = typer.Typer(no_args_is_help=True, help="Look at a node's log.")


@app.callback()
def _root() -> None:
    """Look at a node's log."""
