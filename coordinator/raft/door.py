"""The port on which coordinators reach this one, from before its birth to its end.

Whoever connects has a short time for a greeting. A `Hello` is handed, with its
connection, to `on_hello` (the transport); a question goes to `on_request` (first
start, joining), whose answer ends the connection. Everything else is closed and
counted. With TLS, the certificate's name must be the node that the greeting
names: the handlers can believe it.

Those who have not spoken yet are few: when one more comes, the longest silent is
closed. So a flood of connections, or of halves of them, takes neither memory nor
descriptors, and peers, who speak at once, still get in.

What lives here: the listener, the first words, the asking side of a question.
What must never live here: what becomes of a greeting, messages of consensus.
Called by: the composition root; `transport`, founding and joining install the
handlers. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Sequence

from coordinator.raft import greeting
from coordinator.raft.counters import Counters
from coordinator.raft.greeting import (
    GREETING_BYTES_MAX,
    LENGTH,
    Adopt,
    Adopted,
    Ask,
    Born,
    Empty,
    Greeting,
    Hello,
    Join,
    Joined,
    Malformed,
    OtherVersion,
    Refused,
    Reply,
    Request,
    refused,
)
from coordinator.raft.refusals import Refusals
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.errors import CannotStart, RaftbatchError
from raftbatch.ids import NodeId, is_loopback
from raftbatch.world import TLS, Connection, Listener, Network

_LOG = logging.getLogger(__name__)

OnHello = Callable[[Hello, Connection], Refused | None]
"""Takes the connection over, or says why not."""

OnRequest = Callable[[Request, str | None], Awaitable[Reply]]
"""Answers a question of the node with that certificate name (None: no TLS)."""

WhyNoPeer = Callable[[str | None, Sequence[str]], RaftbatchError | None]
"""Returns why a certificate of that name and those URIs is no coordinator's; None if it is."""

_ANSWERS: dict[type[Request], tuple[type[Reply], ...]] = {
    Ask: (Empty, Born, Refused),
    Adopt: (Adopted, Born, Refused),
    Join: (Joined, Refused),
}

IN_USE = ": another process listens there, perhaps this node, which runs already"
"""What to look for where a port is taken."""

_NOT_READY = refused("no_leader", "this node is not ready for that yet: try again in a moment")


class Door:
    """See the module's docstring. Made closed; `open` opens it.

    Args:
        network: the port.
        listen: where, as `host:port`.
        tls: certificates; None for none, on loopback only.
        limits: bounds.
        counters: counts what was refused, and why.
        insecure: whether to listen without TLS beyond loopback all the same:
            whoever reaches the port is a member then.

    Attributes:
        on_hello: see `OnHello`. None: a peer is told to try again.
        on_request: see `OnRequest`. None: the same.
        refusals: who was refused here, and why.
        why_no_peer: see `WhyNoPeer`; asked where there is TLS.
    """

    def __init__(
        self,
        network: Network,
        listen: str,
        tls: TLS | None,
        limits: TransportLimits,
        counters: Counters,
        *,
        insecure: bool = False,
    ) -> None:
        self.on_hello: OnHello | None = None
        self.on_request: OnRequest | None = None
        self.refusals = Refusals()
        self.why_no_peer: WhyNoPeer = lambda _name, _uris: None
        self._network = network
        self._listen = listen
        self._tls = tls
        self._limits = limits
        self._counters = counters
        self._insecure = insecure
        self._listener: Listener | None = None
        # In the order in which they came, by what each is served by.
        self._strangers: dict[asyncio.Task[object], Connection] = {}
        self._asking: dict[asyncio.Task[object], Connection] = {}

    @property
    def address(self) -> str:
        """Where it listens, the port the real one even where 0 was asked for."""
        return self._listen if self._listener is None else self._listener.address

    async def open(self) -> None:
        """Begin to listen.

        Raises:
            CannotStart: the port is in use or not ours, or would be open to all.
        """
        if self._tls is None and not self._insecure and not is_loopback(self._listen):
            raise CannotStart(
                f"{self._listen} can be reached from other machines, and without TLS whoever "
                "reaches it is a member: configure certificates, or listen on 127.0.0.1"
            )
        try:
            self._listener = await self._network.listen(
                self._listen, self._serve, self._tls, self._failed_before
            )
        except OSError as error:
            hint = IN_USE if error.errno == errno.EADDRINUSE else ""
            raise CannotStart(
                f"cannot listen for other coordinators at {self._listen}: "
                f"{error.strerror or error}{hint}"
            ) from error

    async def close(self) -> None:
        """Stop listening, and close all that has not been handed over."""
        if self._listener is not None:
            await self._listener.close()
        ending = {**self._strangers, **self._asking}
        for task, connection in ending.items():
            connection.abort()
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _failed_before(self, peer: str, error: OSError) -> None:
        """Take in that there was no connection: with TLS, an operator wants to know why."""
        self._counters.add("door.handshake_failed")
        if self._tls is not None:
            self.refusals.note(peer.rpartition(":")[0], "handshake_failed", str(error))

    async def _serve(self, connection: Connection) -> None:
        """Serve one connection, from its first byte to its handing over or its end."""
        task = asyncio.current_task()
        assert task is not None
        while len(self._strangers) >= self._limits.strangers_max:
            self._close_oldest()
        self._strangers[task] = connection
        is_taken = False
        try:
            first = await self._first_words(connection)
            del self._strangers[task]
            if isinstance(first, Hello):
                is_taken = self._greet(first, connection)
            elif first is not None:
                self._asking[task] = connection
                await self._answer(first, connection)
        except OSError:
            self._counters.add("door.broken")  # it went away by itself
        finally:
            self._strangers.pop(task, None)
            self._asking.pop(task, None)
            if not is_taken:
                connection.close()

    def _close_oldest(self) -> None:
        task = next(iter(self._strangers))
        self._strangers.pop(task).abort()
        task.cancel()
        self._counters.add("door.crowded_out")

    async def _first_words(self, connection: Connection) -> Hello | Request | None:
        """Return a greeting of whom the certificate names; None for anything else, refused."""
        try:
            async with asyncio.timeout(self._limits.greeting_ms / 1000):
                first = await read_greeting(connection)
        except TimeoutError:
            self._counters.add("door.silent")
            return None
        except Malformed as error:
            self._counters.add(f"door.{error.reason}")
            if isinstance(error, OtherVersion):
                connection.write(greeting.encode(refused("invalid_request", str(error))))
            return None
        if not isinstance(first, Hello | Request):
            self._counters.add("door.not_a_question")
            return None
        certificate = connection.certificate_name
        if self._tls is not None and certificate != first.node_id:
            text = other_certificate(certificate, first.node_id)
            self._counters.add("door.other_certificate")
            self.refusals.note(certificate or connection.peer, "other_certificate", text)
            connection.write(greeting.encode(refused("unauthenticated", text)))
            return None
        why = self.why_no_peer(certificate, connection.certificate_uris)
        if self._tls is not None and why is not None:
            self._counters.add("door.no_peer")
            self.refusals.note(first.node_id, why.slug, why.message)
            connection.write(greeting.encode(refused(why.slug, why.message)))
            return None
        return first

    def _greet(self, hello: Hello, connection: Connection) -> bool:
        answer = _NOT_READY if self.on_hello is None else self.on_hello(hello, connection)
        if answer is None:
            return True
        self._counters.add("door.hello_refused")
        connection.write(greeting.encode(answer))
        return False

    async def _answer(self, request: Request, connection: Connection) -> None:
        if self.on_request is None:
            reply: Reply = _NOT_READY
        elif len(self._asking) > self._limits.requests_max:
            reply = refused("overloaded", "too many questions at once: try again in a moment")
        else:
            reply = await self._asked(self.on_request, request, connection.certificate_name)
        if isinstance(reply, Refused):
            self._counters.add("door.request_refused")
        connection.write(greeting.encode(reply))

    async def _asked(
        self, on_request: OnRequest, request: Request, certificate: str | None
    ) -> Reply:
        try:
            async with asyncio.timeout(self._limits.request_ms / 1000):
                return await on_request(request, certificate)
        except TimeoutError:
            return refused("outcome_unknown", "the answer took too long: ask again")
        except RaftbatchError as error:
            return refused(error.slug, error.message, error.leader)
        except Exception:  # noqa: BLE001 - whatever it is, the port must go on serving
            self._counters.add("door.request_failed")
            _LOG.exception("request.failed", extra={"fields": {"node": request.node_id}})
            return refused("invariant", "this node met an error it does not know: see its log")


async def request(
    network: Network,
    address: str,
    tls: TLS | None,
    message: Request,
    timeout_s: float,
    *,
    node: NodeId | None = None,
    why_no_peer: WhyNoPeer | None = None,
) -> Reply:
    """Ask a question of the coordinator at an address; return its answer.

    Args:
        network: the port.
        address: where, as `host:port`.
        tls: certificates; None for none.
        message: the question.
        timeout_s: how long all of it may take, in seconds.
        node: whose certificate is expected there; None: of any node of the cluster.
        why_no_peer: judges that one, before anything is asked of it.

    Raises:
        OSError: there is no answer, and the question may have been taken in all
            the same: nobody listens there, it took too long (TimeoutError), the
            certificate is another's, or what came is no answer to that.
    """
    async with asyncio.timeout(timeout_s):
        connection = await network.connect(address, tls)
        try:
            if tls is not None and node is None and why_no_peer is not None:
                why = why_no_peer(connection.certificate_name, connection.certificate_uris)
                if why is not None:
                    raise ConnectionError(why.message)
            answer = await exchange(connection, message)
        finally:
            connection.close()
    if not isinstance(answer, _ANSWERS[type(message)]):
        raise ConnectionError(f"{type(answer).__name__} is no answer to {type(message).__name__}")
    stated = answer.node_id if isinstance(answer, Empty | Born | Adopted) else None
    for name in (node, stated):
        if tls is not None and name is not None and connection.certificate_name != name:
            raise ConnectionError(other_certificate(connection.certificate_name, name))
    return answer


async def exchange(connection: Connection, first: Greeting) -> Greeting:
    """Say something on a new connection, and return what is said to it.

    Raises:
        ConnectionError: the connection broke, or what came is no greeting.
    """
    connection.write(greeting.encode(first))
    try:
        return await read_greeting(connection)
    except Malformed as error:
        raise ConnectionError(f"{connection.peer}: {error}") from None


async def read_greeting(connection: Connection) -> Greeting:
    """Read a greeting, and not a byte more.

    Raises:
        ConnectionError: the connection broke or ended before.
        Malformed: what came is none.
    """
    (length,) = LENGTH.unpack(await _read_exactly(connection, LENGTH.size))
    if length > GREETING_BYTES_MAX:
        raise Malformed("no_greeting", f"a greeting of {length} bytes is too long to be one")
    return greeting.decode(await _read_exactly(connection, length))


async def _read_exactly(connection: Connection, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = await connection.read(length - len(data))
        if not part:
            text = f"{connection.peer} closed the connection without an answer"
            if connection.certificate_name is not None:
                text += ": it may not accept our certificate, and says why in its log"
            raise ConnectionError(text)
        data += part
    return data


def other_certificate(name: str | None, stated: str) -> str:
    """Return what to tell an operator about a certificate that is another's."""
    return (
        f"the certificate names {name or 'nobody'}, but the node says that it is {stated}: "
        f"give {stated} a certificate whose common name is {stated}"
    )
