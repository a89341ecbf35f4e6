"""Calling a peer until there is a connection to it, and again when it has ended.

Of two nodes only the one with the lower id keeps calling. The other asks now and
then, while it waits: that makes the first call at once, which may have waited
long for a node that was down, and tells a node that was removed that it was.

What lives here: when to call, and the dialling side of a greeting. What must
never live here: whom to call, what is said on a connection. Called by:
`transport`, which owns the task that each dialler is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from coordinator.raft.about import About
from coordinator.raft.counters import Counters
from coordinator.raft.door import exchange, other_certificate
from coordinator.raft.greeting import Hello, Refused, Welcome
from coordinator.raft.refusals import Refusals
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.errors import StaleIncarnation
from raftbatch.ids import Identity, NodeId
from raftbatch.world import TLS, Clock, Connection, Entropy, Network

_LOG = logging.getLogger(__name__)

CALLS_ALREADY = "no_leader"
"""The slug with which a node that is asked to call says that it does: try again."""

_MS = 1_000_000  # ns
_ASK_S = 5.0


class NotThis(Exception):
    """The other end may not be connected, and will not change its mind soon.

    Args:
        reason: in a few words with underscores.
        text: a sentence for the operator.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class Dialler:
    """See the module's docstring; `run` is its task.

    Args:
        network: the port.
        clock: tells how long a connection has lived.
        entropy: draws the jitter, so that nodes do not call in step.
        identity: who calls.
        peer: who is called.
        address: asked before each call; None: it has none now.
        tls: certificates.
        limits: bounds.
        counters: counts calls.
        refusals: told why there is no connection.
        take: given a new connection and what its other end has said; raises
            `NotThis`, or returns what is done when the connection has ended.
        outcast: told why the other end refuses this life of this node for ever.
        about: what this node says of itself.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        identity: Identity,
        peer: NodeId,
        address: Callable[[], str | None],
        tls: TLS | None,
        limits: TransportLimits,
        counters: Counters,
        refusals: Refusals,
        take: Callable[[Connection, Welcome], asyncio.Future[None]],
        outcast: Callable[[str], None],
        about: About,
    ) -> None:
        self._network = network
        self._clock = clock
        self._entropy = entropy
        own = identity
        self._hello = Hello(own.cluster_id, own.node_id, own.incarnation, peer, about)
        self._peer = peer
        self._address = address
        self._tls = tls
        self._limits = limits
        self._counters = counters
        self._refusals = refusals
        self._take = take
        self._outcast = outcast
        self._delay_ms = limits.dial_ms_min
        self._is_asked = asyncio.Event()

    def call_now(self) -> None:
        """Call without waiting any longer: the peer is there."""
        self._delay_ms = self._limits.dial_ms_min
        self._is_asked.set()

    async def ask(self, is_connected: Callable[[], bool]) -> None:
        """Ask the peer to call, now and then while there is no connection, until cancelled."""
        is_first = True
        while True:
            if is_connected():
                is_first = True
            else:
                try:
                    await self._call()
                except NotThis as error:
                    if error.reason != CALLS_ALREADY or not is_first:
                        self._refusals.note(self._peer, error.reason, error.text)
                    is_first = False
                except OSError as error:
                    self._refusals.note(self._peer, "unreachable", _text(error))
            await asyncio.sleep(_ASK_S)

    async def run(self, present: asyncio.Future[None] | None) -> None:
        """Keep a connection, until cancelled; the present one, if any, until it has ended."""
        limits = self._limits
        if present is not None:
            await asyncio.wait([present])
        while True:
            try:
                ended = await self._call()
            except NotThis as error:
                self._refusals.note(self._peer, error.reason, error.text)
                self._delay_ms = limits.dial_ms_max
            except OSError as error:
                self._refusals.note(self._peer, "unreachable", _text(error))
            else:
                since_ns = self._clock.monotonic_ns()
                await asyncio.wait([ended])
                # Else two nodes that refuse each other's words would call all the time.
                if self._clock.monotonic_ns() - since_ns > limits.dial_ms_max * _MS:
                    self._delay_ms = limits.dial_ms_min
            self._is_asked.clear()
            try:
                await asyncio.wait_for(self._is_asked.wait(), self._drawn_s())
            except TimeoutError:
                pass  # as nearly always
            self._delay_ms = min(self._delay_ms * 2, limits.dial_ms_max)

    def _drawn_s(self) -> float:
        """Return between half of the delay and all of it, in seconds."""
        drawn = int.from_bytes(self._entropy.random_bytes(2), "little") / (1 << 16)
        return self._delay_ms * (0.5 + drawn / 2) / 1000

    async def _call(self) -> asyncio.Future[None]:
        """Call once; return what is done when the connection has ended.

        Raises:
            NotThis: the other end must not be connected.
            OSError: it cannot be reached, or does not answer as it should.
        """
        address = self._address()
        if address is None:
            raise ConnectionError(f"no address of {self._peer} is known")
        self._counters.add("dial.calls")
        connection: Connection | None = None
        try:
            async with asyncio.timeout(2 * self._limits.greeting_ms / 1000):
                connection = await self._network.connect(address, self._tls)
                answer = await exchange(connection, self._hello)
            ended = self._take(connection, self._checked(answer, connection, address))
            connection = None
            return ended
        except TimeoutError:
            raise TimeoutError(f"{address} does not answer in time") from None
        except (OSError, NotThis):
            raise
        except Exception as error:
            _LOG.exception("dial.failed", extra={"fields": {"peer": self._peer}})
            raise ConnectionError(f"{address} cannot be called: {error!r}") from error
        finally:
            if connection is not None:
                connection.abort()

    def _checked(self, answer: object, connection: Connection, address: str) -> Welcome:
        """Return what the node says that answered, if it is the one that was meant."""
        if self._tls is not None and connection.certificate_name != self._peer:
            text = other_certificate(connection.certificate_name, self._peer)
            raise NotThis("other_certificate", f"{address}: {text}")
        if isinstance(answer, Refused):
            if answer.slug == StaleIncarnation.slug:
                self._outcast(answer.text)
            raise NotThis(answer.slug, f"{self._peer} at {address} refuses: {answer.text}")
        if not isinstance(answer, Welcome):
            raise ConnectionError(f"{address} answers with a {type(answer).__name__}")
        if answer.node_id != self._peer:
            text = f"{self._peer} was called at {address}, and {answer.node_id} is there"
            raise NotThis("other_node", text)
        return answer


def _text(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
