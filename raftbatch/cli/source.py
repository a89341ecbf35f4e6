"""Where commands read a log: from a node of a live cluster, or from a stopped node's directory.

Both give the same: first how far the log reaches, then its entries in order, each once. Of a
cluster any node will do; the one that has applied most is asked, rather not the leader, and
where it goes away the next, from where the last one was. What lives here: that. What must never
live here: what is printed. Called by: commands. `coordinator` is imported inside functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, TypeVar

import typer

from raftbatch.cli.calls import CallFailed, Cluster, Target, ask, cluster_of, connected, usage
from raftbatch.cli.status import statuses
from raftbatch.codec import ENTRY_BYTES_MAX, decode_entry
from raftbatch.cut import read_cut
from raftbatch.errors import InvalidRequest, RaftbatchError, Undecodable
from raftbatch.handshakes import together
from raftbatch.records import Entry

if TYPE_CHECKING:
    from raftbatch.v1 import admin_pb2
    from raftbatch.v1.admin_pb2_grpc import AdminStub

    T = TypeVar("T", admin_pb2.RequestReply, admin_pb2.BatchReply)

_ELSEWHERE = ("", "no_leader", "draining", "overloaded", "outcome_unknown")
_PAUSE_S = 0.2

DirectoryOption = Annotated[
    str,
    typer.Option(
        "--directory", metavar="DIR", help="Read a node's data directory instead of a cluster."
    ),
]


class Span(NamedTuple):
    """How far a log reaches.

    Attributes:
        node: whose it is.
        first: index of the oldest entry that is kept.
        last: index of the newest: applied, or, of a directory, there.
    """

    node: str
    first: int
    last: int


class Item(NamedTuple):
    """An entry.

    Attributes:
        index, term: where it stands.
        size: its bytes in the log.
        entry: its records; None: it has none.
        membership: who belongs to the cluster, of an entry that says so; else empty.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    term: int
    size: int
    entry: Entry | None
    membership: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries; see `EntriesRequest` in proto/raftbatch/v1/admin.proto."""

    first: int = 0
    last: int = 0
    newest: int = 0
    follows: bool = False
    payloads: bool = False


class Source(Protocol):
    """Where a log is read."""

    def read(self, wanted: Wanted) -> AsyncGenerator[Span | Item, None]:
        """Yield how far the log reaches, then the entries. Raises CallFailed."""
        ...

    async def request(self, tenant: str, request_id: str) -> admin_pb2.RequestReply | None:
        """Return what the state holds of a request; None: nothing, or there is no state."""
        ...

    async def batch(self, number: int) -> admin_pb2.BatchReply | None:
        """Return what the state holds of a batch; None: nothing, or there is no state."""
        ...


def source_of(config: str, addresses: list[str] | None, directory: str, timeout_s: float) -> Source:
    """Return where to read; ends the command with status 2 where that is not said, or twice."""
    if directory and (config or addresses):
        raise usage("--directory reads files alone: leave --config and --address out")
    if directory:
        return DirectorySource(directory)
    if not config and not addresses:
        raise usage(
            "say where: --config FILE or --address HOST:PORT for a cluster, or --directory DIR "
            "for the files of a node"
        )
    return ClusterSource(cluster_of(config, addresses or []), timeout_s)


class ClusterSource:
    """A live cluster, through one node at a time.

    Args:
        cluster: whom to ask.
        timeout_s: how long one answer may take.
    """

    def __init__(self, cluster: Cluster, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._order: list[Target] = []

    async def read(self, wanted: Wanted) -> AsyncGenerator[Span | Item, None]:
        """Yield how far the log reaches, then the entries; see `Source`."""
        clock = asyncio.get_running_loop().time
        is_told, failures, heard_s = False, 0, clock()
        while True:
            target: Target | None = None
            try:
                target = await self._target()
                async with aclosing(self._stream(target, wanted)) as stream:
                    async for each in stream:
                        failures, heard_s = 0, clock()
                        if isinstance(each, Item):
                            wanted = replace(wanted, first=each.index + 1, newest=0)
                        elif is_told:
                            continue
                        is_told = True
                        yield each
                return
            except CallFailed as error:
                failures += 1
                is_over = clock() - heard_s > self._timeout_s or not wanted.follows
                is_over = is_over and (target is None or failures >= len(self._cluster.targets))
                if error.slug not in _ELSEWHERE or is_over:
                    raise
                self._order = [each for each in self._order if each != target]
            await asyncio.sleep(_PAUSE_S if failures > 1 else 0)

    async def _stream(self, target: Target, wanted: Wanted) -> AsyncGenerator[Span | Item, None]:
        """Yield what one node says."""
        from raftbatch.v1 import admin_pb2

        request = admin_pb2.EntriesRequest(
            first=wanted.first,
            last=wanted.last,
            follow=wanted.follows,
            payloads=wanted.payloads,
            newest=wanted.newest,
        )
        parts: list[bytes] = []
        async with connected(self._cluster, target, self._timeout_s) as stub:
            replies = aiter(stub.Entries(request))
            is_begun = False
            while True:
                try:
                    patience_s = None if wanted.follows and is_begun else self._timeout_s
                    async with asyncio.timeout(patience_s):
                        reply = await anext(replies)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    said = f"{target} said nothing for {self._timeout_s:g} s"
                    raise CallFailed(said, "", is_definite=True) from None
                if reply.HasField("span"):
                    is_begun = True
                    yield Span(reply.span.node_id, reply.span.first, reply.span.applied)
                for entry in reply.entries:
                    parts.append(entry.data)
                    if sum(map(len, parts)) > ENTRY_BYTES_MAX:
                        said = f"{target} sends entry {entry.index} without an end"
                        raise CallFailed(said, "corrupt", is_definite=True)
                    if not entry.more:
                        yield _item(entry, b"".join(parts), wanted.payloads)
                        parts.clear()

    async def request(self, tenant: str, request_id: str) -> admin_pb2.RequestReply | None:
        """Return what the state of the node that is asked holds; see `Source`."""
        from raftbatch.v1 import admin_pb2

        message = admin_pb2.RequestRequest(tenant=tenant, request_id=request_id)

        async def call(stub: AdminStub, left_s: float) -> admin_pb2.RequestReply:
            reply: admin_pb2.RequestReply = await stub.Request(message, timeout=left_s)
            return reply

        return await self._known(call)

    async def batch(self, number: int) -> admin_pb2.BatchReply | None:
        """Return what the state of the node that is asked holds; see `Source`."""
        from raftbatch.v1 import admin_pb2

        message = admin_pb2.BatchRequest(batch=number)

        async def call(stub: AdminStub, left_s: float) -> admin_pb2.BatchReply:
            reply: admin_pb2.BatchReply = await stub.Batch(message, timeout=left_s)
            return reply

        return await self._known(call)

    async def _known(self, call: Callable[[AdminStub, float], Awaitable[T]]) -> T | None:
        while True:
            target = await self._target()
            try:
                return await ask(self._cluster, target, call, self._timeout_s)
            except CallFailed as error:
                if error.slug == "unknown_request":
                    return None
                if error.slug not in _ELSEWHERE or len(self._order) < 2:
                    raise
                self._order.remove(target)

    async def _target(self) -> Target:
        """Return whom to ask: who has applied most, rather not the leader."""
        if not self._order:
            answers = await statuses(self._cluster, self._timeout_s)
            serving = [
                (-answer.applied, answer.role == "leader", place, target)
                for place, (target, answer) in enumerate(answers)
                if not isinstance(answer, str) and answer.phase == "serving"
            ]
            if not serving:
                said = {
                    str(target): answer if isinstance(answer, str) else f"it is {answer.phase}"
                    for target, answer in answers
                }
                raise CallFailed(together(said), "no_leader", is_definite=True)
            self._order = [target for *_, target in sorted(serving)]
        return self._order[0]


def _item(entry: admin_pb2.LogEntry, data: bytes, is_whole: bool) -> Item:
    try:
        content = None
        if data:
            content = decode_entry(data) if is_whole else read_cut(data)
    except Undecodable as error:
        raise CallFailed(
            f"entry {entry.index} cannot be read here: {error}; run the version that the cluster "
            "runs",
            "corrupt",
            is_definite=True,
        ) from None
    return Item(entry.index, entry.term, entry.size, content, entry.membership)


class DirectorySource:
    """A node's data directory, offline.

    Args:
        directory: where.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    async def read(self, wanted: Wanted) -> AsyncGenerator[Span | Item, None]:
        """Yield how far the log reaches, then the entries; see `Source`."""
        from coordinator.offline import decoded, read_directory
        from coordinator.raft.membership import decode
        from raftbatch.realworld import RealWorld

        try:
            log = read_directory(RealWorld(), self._directory)
            span = Span(log.identity.node_id, log.first_index, log.last_index)
            yield span
            first = wanted.first
            if not first and wanted.newest:
                first = max(log.first_index, log.last_index - wanted.newest + 1)
            for raw in log.raw(first, wanted.last):
                size = len(raw.data)
                if raw.is_config:
                    yield Item(raw.index, raw.term, size, None, str(decode(raw.data)))
                else:
                    content = decoded(raw) if raw.data else None
                    yield Item(raw.index, raw.term, size, content, "")
        except (RaftbatchError, ValueError) as error:
            slug = error.slug if isinstance(error, RaftbatchError) else InvalidRequest.slug
            said = error.message if isinstance(error, RaftbatchError) else str(error)
            raise CallFailed(said, slug, is_definite=True) from None

    async def request(
        self,
        tenant: str,  # noqa: ARG002 - as a `Source` has it, and so below
        request_id: str,  # noqa: ARG002
    ) -> admin_pb2.RequestReply | None:
        """Return None: the log is all that is there."""
        return None

    async def batch(
        self,
        number: int,  # noqa: ARG002
    ) -> admin_pb2.BatchReply | None:
        """Return None: the log is all that is there."""
        return None
