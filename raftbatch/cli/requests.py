"""`raftbatch infer`, `submit`, `result` and `cancel`: one request, from the command line.

What lives here: these commands. What must never live here: whom to ask (`raftbatch.client`).
Called by: the command line. The SDK is imported inside functions, so that `raftbatch --help`
is quick.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from raftbatch.cli.calls import (
    EXIT_FAILED,
    EXIT_UNKNOWN,
    AddressOption,
    Cluster,
    ConfigOption,
    JsonOption,
    cluster_of,
    pems,
)
from raftbatch.cli.failing import say
from raftbatch.cli.tensors import inputs_of, print_outputs
from raftbatch.cli.text import printable
from raftbatch.cli.waiting import after_s, say_if_nobody_runs
from raftbatch.errors import NoLeader, OutcomeForgotten, RaftbatchError, UnknownModel

if TYPE_CHECKING:
    from raftbatch.client import Client, ClientOptions

T = TypeVar("T")

EXITS = """\

Exit status: 0 done, 1 a definite failure: it did not happen, or the model failed, 2 wrong usage,
3 nobody knows. `infer` whose --wait is over has its request cancelled: `raftbatch request show`
tells what became of it. Else ask again with the same --request-id: it never runs twice.
"""

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")]
TextArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help="The input, where the model has one; - for a JSON object of all inputs on standard "
        "input.",
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="An input by its name: JSON, or else text. May be repeated.",
    ),
]
VersionOption = Annotated[
    str, typer.Option("--model-version", metavar="V", help="Of the model; else the newest.")
]
IdOption = Annotated[
    str, typer.Option("--request-id", metavar="ID", help="The same for every try of one request.")
]
ExpiryOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="S", min=0.001, help="After so long the request expires, in seconds."
    ),
]
PriorityOption = Annotated[
    int | None, typer.Option("--priority", metavar="N", min=0, help="0 is the most urgent.")
]
PatienceOption = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="S",
        min=0.1,
        help="How long to wait, in seconds; nodes that are down or slow are tried as long.",
    ),
]
ForwardOption = Annotated[
    bool,
    typer.Option(
        "--forward",
        help="Any node hands it on to the leader: for clients that do not reach all nodes.",
    ),
]
TenantOption = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Whose request it is; else `default`.")
]
RequestArgument = Annotated[str, typer.Argument(metavar="ID", help="The request's id.")]
IndexOption = Annotated[
    int, typer.Option("--index", metavar="N", min=0, help="Of its ticket, where it is known.")
]


def infer(
    model: ModelArgument,
    text: TextArgument = None,
    inputs: InputOption = None,
    config: ConfigOption = "",
    address: AddressOption = None,
    version: VersionOption = "",
    request_id: IdOption = "",
    timeout_s: ExpiryOption = None,
    priority: PriorityOption = None,
    patience_s: PatienceOption = 60.0,
    forward: ForwardOption = False,
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a request, and print its outputs."""
    given = inputs_of(text, inputs or [])
    cluster = cluster_of(config, address or [])

    async def ask() -> None:
        options = _options(cluster, patience_s, forward, tenant)
        from raftbatch.client import AsyncClient

        async with AsyncClient([each.address for each in cluster.targets], options) as client:
            told = asyncio.ensure_future(
                say_if_nobody_runs(cluster, model, version, after_s(patience_s, timeout_s))
            )
            try:
                found = await client.infer(
                    model,
                    given,
                    version=version,
                    request_id=request_id,
                    timeout_s=timeout_s,
                    priority=priority,
                )
            finally:
                told.cancel()
                await asyncio.gather(told, return_exceptions=True)
            if print_outputs(found, as_json):
                await client.acknowledge(found.request_id)

    _ended(lambda: asyncio.run(ask()))


def submit(
    model: ModelArgument,
    text: TextArgument = None,
    inputs: InputOption = None,
    config: ConfigOption = "",
    address: AddressOption = None,
    version: VersionOption = "",
    request_id: IdOption = "",
    timeout_s: ExpiryOption = None,
    priority: PriorityOption = None,
    patience_s: PatienceOption = 60.0,
    forward: ForwardOption = False,
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Have a request taken in, and print its ticket: it has its outcome one day, whoever dies."""
    given = inputs_of(text, inputs or [])
    ticket = _call(
        config,
        address,
        patience_s,
        forward,
        tenant,
        lambda client: client.submit(
            model,
            given,
            version=version,
            request_id=request_id,
            timeout_s=timeout_s,
            priority=priority,
        ),
    )
    if as_json:
        typer.echo(json.dumps({"request_id": ticket.request_id, "index": ticket.index}))
    else:
        typer.echo(f"{printable(ticket.request_id)} --index {ticket.index}")


def result(
    request_id: RequestArgument,
    index: IndexOption = 0,
    config: ConfigOption = "",
    address: AddressOption = None,
    patience_s: PatienceOption = 60.0,
    forward: ForwardOption = False,
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Wait for the outcome of a request that was submitted, and print its outputs.

    Outputs that were printed whole are acknowledged: they cannot be had again. Outputs of a single
    row are printed without the batch axis, as `infer` prints them, whoever has asked for them.
    """

    def show(client: Client) -> None:
        found = client.ticket(request_id, index).result()
        found.is_single = True  # of many rows it changes nothing
        if print_outputs(found, as_json):
            client.acknowledge(request_id)

    _call(config, address, patience_s, forward, tenant, show)


def cancel(
    request_id: RequestArgument,
    config: ConfigOption = "",
    address: AddressOption = None,
    patience_s: PatienceOption = 60.0,
    forward: ForwardOption = False,
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Cancel a request, unless it has an outcome; one that is not known yet never runs."""
    is_cancelled = _call(
        config, address, patience_s, forward, tenant, lambda client: client.cancel(request_id)
    )
    if as_json:
        typer.echo(json.dumps({"request_id": request_id, "cancelled": is_cancelled}))
    else:
        typer.echo("cancelled" if is_cancelled else "it had an outcome before")
    if not is_cancelled:
        raise typer.Exit(EXIT_FAILED)


def _call(
    config: str,
    address: list[str] | None,
    patience_s: float,
    forward: bool,
    tenant: str,
    call: Callable[[Client], T],
) -> T:
    """Make one call; an error ends the command, and says what to try next."""
    cluster = cluster_of(config, address or [])

    def made() -> T:
        options = _options(cluster, patience_s, forward, tenant)
        from raftbatch.client import Client

        with Client([each.address for each in cluster.targets], options) as client:
            return call(client)

    return _ended(made)


def _options(cluster: Cluster, patience_s: float, forward: bool, tenant: str) -> ClientOptions:
    """Return the settings of a client for the cluster; the SDK, and gRPC, are loaded by then."""
    from raftbatch.realworld.process import quiet_grpc

    quiet_grpc()
    from raftbatch.client import TLS, ClientOptions

    tls = None
    if cluster.certificates is not None:
        names = {each.address: each.node for each in cluster.known}
        tls = TLS(*pems(cluster.certificates), names)
    return ClientOptions(
        tenant,
        patience_s,
        connect_timeout_s=patience_s,  # nodes that start, or are slow, are waited for, too
        acknowledges=False,  # not before it is printed
        tls=tls,
        forward=forward,
        cluster=cluster.name,
    )


def _ended(call: Callable[[], T]) -> T:
    """Make a call; an error ends the command, and says what to try next."""
    try:
        return call()
    except RaftbatchError as error:
        say(
            f"{_before(error)}{error.message}{_next(error)}",
            error.slug,
            definite=error.definite,
            retry_after_ms=error.retry_after_ms,
        )
        raise typer.Exit(EXIT_FAILED if error.definite else EXIT_UNKNOWN) from None


def _before(error: RaftbatchError) -> str:
    """Return what the message itself does not say."""
    from raftbatch.client import RequestFailed

    if isinstance(error, RequestFailed):
        return f"the request failed: {error.code}: "
    return "" if error.definite else "It may have happened or not: "


def _next(error: RaftbatchError) -> str:
    """Return what to try."""
    if not error.definite:
        return (
            ". `raftbatch request show` tells what came of it; asked for again with the same id it "
            "never runs twice."
        )
    if isinstance(error, UnknownModel):
        return ". Models stand in the cluster's configuration file, as [models.NAME]."
    if isinstance(error, OutcomeForgotten):
        return ". What it was, `raftbatch request show` tells."
    if isinstance(error, NoLeader):
        return ". Try `raftbatch status`."
    return ""
