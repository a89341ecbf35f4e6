"""`raftbatch models`: look at models before they are served.

What lives here: what is tried, and how it is shown. What must never live here: running a model
(`executor`), whose imports are inside functions: no other command needs them.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from raftbatch.cli.calls import EXIT_FAILED, JsonOption, usage
from raftbatch.cli.models_view import as_object, declaration, show
from raftbatch.cli.text import paragraphs, terminal
from raftbatch.errors import InvalidRequest

# Of `executor`, which no module of the command line imports at its top.
Checked = Any
Load = Any

app = typer.Typer(name="models", no_args_is_help=True, help="Look at models.")

HELP = """\
Try a model: load it, and run it on sample input, made of what it declares.

WHAT is a Python file with a model's class, also as FILE:CLASS. With --config it is the name of a
model of that file; without WHAT all its models are tried that executors run. Batches are of one
row, a few and --rows, and of each length that has a bucket; what comes back is held against what
is declared. It runs in a process of its own, which it may end; what it prints goes to standard
error.

Below that stands what serves it, as a cluster's file has it; --toml prints that alone:

raftbatch models check FILE --toml > mine.toml; raftbatch up mine.toml

Exit status: 0 all is well, 1 a model does not load, or failed, 2 wrong usage.
"""

_ROWS, _ROWS_MAX = 32, 256


@app.callback()
def _group() -> None:
    """Look at models before they are served."""


@app.command(help=paragraphs(HELP))
def check(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A file, FILE:CLASS, or a model's name.")
    ] = "",
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="A cluster's configuration, or models.")
    ] = "",
    rows: Annotated[
        int,
        typer.Option(
            "--rows", metavar="N", min=1, max=_ROWS_MAX, help="Of the largest batch, of a file's."
        ),
    ] = _ROWS,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="What serves it, alone; nothing, if it is not well.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Do it; see `HELP`."""
    if not what and not config:
        raise usage("name a file with a model's class, or --config FILE")
    if as_toml and (config or as_json):
        raise usage("--toml is for a file with a model's class, and without --json")
    try:
        from executor.trying import tried
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise usage("models need numpy, which is not installed: pip install numpy") from None
    try:
        loads = _of_config(config, what) if config else [(_of_file(what), rows)]
    except InvalidRequest as error:
        raise usage(error.message) from None
    found = [
        asyncio.run(tried(load, min(rows_max, _ROWS_MAX), _pass_on)) for load, rows_max in loads
    ]
    toml = "" if config or found[0].problems else _toml(what, found[0], rows)
    if as_json:
        typer.echo(json.dumps({"models": [as_object(each) for each in found], "toml": toml}))
    elif as_toml and toml:
        typer.echo(toml, nl=False)
    else:
        for each in found:
            show(each, _complain if as_toml else terminal())
        if toml:
            typer.echo(f"\nTo serve it (--toml writes this alone, for `raftbatch up`):\n\n{toml}")
    if any(each.problems for each in found):
        raise typer.Exit(EXIT_FAILED)


def _of_file(what: str) -> Load:
    """Return what loads a file's class, which may not be named.

    Raises:
        InvalidRequest: there is no such file.
    """
    from pathlib import Path

    from executor.children import cpus
    from executor.frames import Load as Loaded

    file, class_name = _split(what)
    path = Path(file)
    is_package = path.is_dir() and (path / "__init__.py").is_file()
    if not is_package and not (path.suffix == ".py" and path.is_file()):
        raise InvalidRequest(f"{file}: there is no such Python file, nor a package")
    place = str(path.absolute())
    threads = cpus()
    return Loaded(_name(file), "1", place, "", class_name, (), (), True, 0, threads, "", {})


def _split(what: str) -> tuple[str, str]:
    """Return file and class of `FILE:CLASS`; an empty class of a file alone."""
    file, colon, class_name = what.rpartition(":")
    return (file, class_name) if colon and class_name.isidentifier() else (what, "")


def _name(file: str) -> str:
    """Return what a model of a file is called, if nobody else says."""
    return file.rstrip("/").rpartition("/")[2].removesuffix(".py")


def _of_config(path: str, name: str) -> list[tuple[Load, int]]:
    """Return what loads the models of a configuration, and the rows of a batch of each.

    Raises:
        InvalidRequest: something in it is wrong, or there is no such model.
    """
    from pathlib import Path

    from executor.children import cpus
    from executor.config import executor_config
    from raftbatch.config import ClusterFile, load, tables_of
    from raftbatch.realworld import GivenFiles
    from raftbatch.settings import Model
    from raftbatch.tables import Table

    place = str(Path(path).absolute())
    values = tables_of(GivenFiles(), path)
    if "nodes" in values:
        cluster = load(GivenFiles(), place)
    else:  # models alone, as `raftbatch up` takes them
        rest = {"models": Table(place, "", values).table("models")}
        cluster = ClusterFile(place, "", {}, False, True, Table(place, "tls", {}), rest)
    found = []
    for each in executor_config(cluster, "check", cpus(), [name] if name else []).models:
        table = cluster.rest["models"].table(each.load.name)
        rows = table.whole("max_batch_size", Model("", "").max_batch_size)
        found.append((each.load, max(rows, 1)))
    return found


def _toml(what: str, found: Checked, rows: int) -> str:
    """Return the tables that serve a model of a file."""
    from raftbatch.local import toml

    assert found.form is not None
    file, _ = _split(what)
    declared = {
        key: [declaration(each, is_input=key == "inputs") for each in tensors]
        for key, tensors in (("inputs", found.form.inputs), ("outputs", found.form.outputs))
    }
    table = {
        "max_batch_size": rows,
        **declared,
        "executor": {"file": file, "class": found.class_name},
    }
    return toml.document({"models": {found.name: table}})


def _pass_on(said: str) -> None:
    typer.echo(said, err=True, nl=False)


def _complain(line: str, _style: str) -> None:
    typer.echo(line, err=True)
