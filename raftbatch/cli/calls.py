"""Calls to the nodes of a cluster, for commands: whom to ask, where to go next, what came of it.

What lives here: addresses and certificates from the command line, gRPC calls that
follow the leader, and exit statuses. What must never live here: what a command
prints. Called by: the commands. gRPC is imported inside functions, so that
`raftbatch --help` is quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from raftbatch.cli.failing import NO_ANSWER, USAGE, note_json, say
from raftbatch.config import Certificates, ClusterFile, load
from raftbatch.errors import CannotStart, InvalidRequest, OutcomeUnknown
from raftbatch.handshakes import in_words, together
from raftbatch.ids import is_address

if TYPE_CHECKING:
    from grpc.aio import Channel, ClientInterceptor

    from raftbatch.v1.admin_pb2_grpc import AdminStub

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3

_CONNECT_S = 2.0
_WHY_S = 0.5
_LEAST_S = 0.1  # of a time that is over: what is to be asked is asked all the same
_LEADERS = ("draining", "overloaded")  # a leader's word, that it cannot do so now
_LATER = ("no_leader", "not_leader", *_LEADERS)
_PAUSE_S = 0.2

ConfigOption = Annotated[
    str, typer.Option("--config", metavar="FILE", help="The cluster's configuration file.")
]
AddressOption = Annotated[
    list[str] | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="A node's client address; may be repeated."
    ),
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", min=0.1, help="How long it may take, in seconds.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", callback=note_json, help="One JSON object, of an error too.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """A node to ask.

    Attributes:
        address: its client address.
        node: its name, where the configuration file has it; else empty.
    """

    address: str
    node: str = ""

    def __str__(self) -> str:
        """Return how to call it before a person."""
        return f"{self.node} at {self.address}" if self.node else self.address


@dataclass(frozen=True, slots=True)
class Cluster:
    """Whom a command may ask.

    Attributes:
        targets: in the order in which to ask them.
        known: all that the configuration file names.
        certificates: the operator's; None without TLS.
        name: of the cluster, as the file has it; empty: no file does.
    """

    targets: tuple[Target, ...]
    known: tuple[Target, ...] = ()
    certificates: Certificates | None = None
    name: str = ""

    def at(self, address: str) -> Target:
        """Return who is at an address."""
        return next((each for each in self.known if each.address == address), Target(address))


class CallFailed(Exception):
    """A call has failed.

    Args:
        message: for a person.
        slug: of the error; empty where there was no answer.
        is_definite: whether nothing was done.
        leader: where to go.
        retry_after_ms: how long to wait before another try; 0: it does not say.
    """

    def __init__(
        self,
        message: str,
        slug: str,
        is_definite: bool,
        leader: str = "",
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.slug = slug
        self.is_definite = is_definite
        self.leader = leader
        self.retry_after_ms = retry_after_ms


def cluster_of(config: str, addresses: Sequence[str]) -> Cluster:
    """Return whom to ask; ends the command with status 2 where nobody is named, or wrongly."""
    if not config and not addresses:
        raise usage("name the cluster: --config FILE, or a node's client address")
    for each in addresses:
        check_address(each)
    if not config:
        return Cluster(tuple(Target(each) for each in addresses))
    from raftbatch.realworld import GivenFiles

    try:
        found: ClusterFile = load(GivenFiles(), config)
        certificates = found.operator()
    except InvalidRequest as error:
        raise usage(error.message) from None
    known = tuple(Target(each.client, node) for node, each in found.nodes.items())
    cluster = Cluster(known, known, certificates)
    chosen = tuple(cluster.at(each) for each in addresses)
    return Cluster(chosen or known, known, certificates, found.name)


def check_address(text: str) -> None:
    """End the command with status 2 where a text is no address."""
    if not is_address(text):
        raise usage(f"{text!r} is no address: it has the form host:port")


def usage(message: str) -> typer.Exit:
    """Say what is wrong with the command; return what to raise."""
    say(message, USAGE)
    return typer.Exit(EXIT_USAGE)


def failed(error: CallFailed) -> typer.Exit:
    """Say why a call has failed; return what to raise."""
    unknown = "" if error.is_definite else "It may have happened or not: "
    code = error.slug or (NO_ANSWER if error.is_definite else OutcomeUnknown.slug)
    say(
        error.message,
        code,
        definite=error.is_definite,
        retry_after_ms=error.retry_after_ms,
        text=f"{unknown}{error.message}",
    )
    return typer.Exit(EXIT_FAILED if error.is_definite else EXIT_UNKNOWN)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's calls; a failed one ends the command."""
    try:
        return asyncio.run(main)
    except CallFailed as error:
        raise failed(error) from None


@asynccontextmanager
async def connected(
    cluster: Cluster, target: Target, timeout_s: float
) -> AsyncGenerator[AdminStub, None]:
    """Yield what calls one node; a call within that fails is a `CallFailed`.

    Raises:
        CallFailed: with what the node said, or that it said nothing.
    """
    from raftbatch.realworld.process import quiet_grpc

    quiet_grpc()
    import grpc.aio

    from raftbatch.v1.admin_pb2_grpc import AdminStub

    async with _channel(cluster, target) as channel:
        try:
            async with asyncio.timeout(min(timeout_s, _CONNECT_S)):
                await channel.channel_ready()
        except TimeoutError:
            text = f"{target} does not answer: {await _why_not(channel)}"
            if not cluster.known:  # else the file has said whether there is TLS
                text += ". Where it wants TLS, name the cluster's file with --config"
            raise CallFailed(text, "", is_definite=True) from None
        try:
            yield AdminStub(channel)
        except grpc.aio.AioRpcError as error:
            raise _of_rpc(target, error) from None


async def ask(
    cluster: Cluster,
    target: Target,
    call: Callable[[AdminStub, float], Awaitable[T]],
    timeout_s: float,
) -> T:
    """Make one call of one node; it takes no longer than it may, but to say why.

    Raises:
        CallFailed: with what the node said, or that it said nothing.
    """
    time = asyncio.get_running_loop().time
    ends = time() + timeout_s
    async with connected(cluster, target, timeout_s) as stub:
        return await call(stub, max(ends - time(), _LEAST_S))
    raise AssertionError("either it returns or it raises")


async def _why_not(channel: Channel) -> str:
    """Return why a channel has not come about, as gRPC says it to a call that asks for nothing."""
    import grpc.aio

    from raftbatch.v1 import admin_pb2
    from raftbatch.v1.admin_pb2_grpc import AdminStub

    try:
        await AdminStub(channel).Status(admin_pb2.StatusRequest(), timeout=_WHY_S)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return in_words(error.details() or "")
    return f"there was no connection within {_CONNECT_S:g} s"


async def ask_leader(
    cluster: Cluster,
    call: Callable[[AdminStub, float], Awaitable[T]],
    timeout_s: float,
) -> T:
    """Make a call that the leader alone answers: go where others send, and wait for one.

    Raises:
        CallFailed: it could not be made in time, was refused, or nobody knows.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    waiting: list[Target] = []
    hints: list[str] = []  # followed since the last pause
    said: dict[Target, CallFailed] = {}
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        if not waiting:
            if said:
                await asyncio.sleep(min(_PAUSE_S, left))
            waiting, hints = list(cluster.targets), []
        target = waiting.pop(0)
        try:
            return await ask(cluster, target, call, left)
        except CallFailed as error:
            if not error.is_definite or (error.slug and error.slug not in _LATER):
                raise
            said[target] = error
            if error.slug in _LEADERS:  # whoever leads has spoken: the others know no more
                waiting = []
            elif error.leader and error.leader not in (target.address, *hints):
                hints.append(error.leader)
                waiting = [await _named(cluster, error.leader, target, left), *waiting]
    raise _most_telling(said, timeout_s)


async def _named(cluster: Cluster, address: str, teller: Target, timeout_s: float) -> Target:
    """Return who is at an address; of one that the file does not name, its teller knows the name.

    Its certificate is held against that name.
    """
    found = cluster.at(address)
    if found.node or cluster.certificates is None:
        return found

    async def members(stub: AdminStub, left_s: float) -> Any:
        from raftbatch.v1 import admin_pb2

        return await stub.Members(admin_pb2.MembersRequest(), timeout=left_s)

    try:
        reply = await ask(cluster, teller, members, timeout_s)
    except CallFailed:
        return found
    return next(
        (Target(address, each.node_id) for each in reply.members if each.client_address == address),
        found,
    )


def _most_telling(said: dict[Target, CallFailed], timeout_s: float) -> CallFailed:
    """Return what the leader said last, or else that there is none, and what the others said."""
    for error in said.values():
        if error.slug in _LEADERS:
            return error
    each = together({str(target): error.message for target, error in said.items()})
    return CallFailed(f"no leader was found in {timeout_s:g} s ({each})", "no_leader", True)


def _channel(cluster: Cluster, target: Target) -> Channel:
    import grpc

    from raftbatch.channels import open_channel

    credentials = None
    if cluster.certificates is not None:
        ca, cert, key = pems(cluster.certificates)
        credentials = grpc.ssl_channel_credentials(ca, key or None, cert or None)
    return open_channel(
        target.address, credentials, target.node, interceptors=_naming(cluster.name)
    )


def _naming(name: str) -> list[ClientInterceptor]:
    """Return what has each call say which cluster it is meant for."""
    import grpc.aio

    from raftbatch.channels import meant_for

    if not name:
        return []

    async def named(continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(details._replace(metadata=meant_for(name)), request)

    class Calls(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, *call: Any) -> Any:
            return await named(*call)

    class Streams(grpc.aio.UnaryStreamClientInterceptor):
        async def intercept_unary_stream(self, *call: Any) -> Any:
            return await named(*call)

    return [Calls(), Streams()]


def _of_rpc(target: Target, error: Any) -> CallFailed:
    """Return what a node said, from its trailer; without one nobody knows."""
    from raftbatch.trailers import said_by

    said = said_by(error.trailing_metadata())
    if said is not None:
        return CallFailed(said.message, said.slug, said.definite, said.leader, said.retry_after_ms)
    text = f"{target}: {in_words(error.details() or error.code().name)}"
    return CallFailed(text, "", is_definite=False)


def pems(certificates: Certificates) -> tuple[bytes, bytes, bytes]:
    """Return authority, certificate and key; ends the command where they are no use."""
    from raftbatch.realworld.tls import read_shown

    try:
        return read_shown(certificates)
    except CannotStart as error:
        raise usage(str(error)) from None
