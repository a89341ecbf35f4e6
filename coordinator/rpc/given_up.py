"""Requests of single calls that were given up: whoever asked has cancelled the call, or has gone.

An Infer that ends so has its request cancelled, since nobody is to hear of it. gRPC ends calls for
other reasons too, and does not say for which. The request goes on, and has its outcome for whoever
asks for it,

- at the call's deadline: the wait is over, and no more;
- where this node stops, or may have ended the connection itself, as it ends old ones: the client
  asks again, here or elsewhere;
- where somebody else waits here for the same request.

What lives here: that distinction, and asking for the cancels, many at once. What must never live
here: a call. Called by: `gateway`. One thread: the loop's. Tasks: one, while there is something to
cancel.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context

from coordinator.api import Name
from coordinator.node import Node, Phase
from coordinator.rpc.forwarding import Forwarder
from coordinator.submission import check_name
from raftbatch.errors import Fatal, InvalidRequest, RaftbatchError

_WAITING_MAX = 4096  # for their cancels; the requests of others go on
_NAMES_MAX = 1024  # of one cancel
_DEADLINE_S = 1.0  # the client's clock is ahead by as long as its call was on its way
_AGE, _GRACE = 0.9, 0.5  # gRPC ends connections up to a tenth sooner; calls that had begun, later


class GivenUp:
    """See the module's docstring.

    Args:
        node: whose calls they were.
        forwarder: hands the cancels on where another node leads.

    Attributes:
        since: when the port was made, by the loop's clock: no connection is older.
    """

    def __init__(self, node: Node, forwarder: Forwarder) -> None:
        self.since = asyncio.get_running_loop().time()
        self._node = node
        self._forwarder = forwarder
        self._names: dict[Name, None] = {}
        self._task: asyncio.Task[None] | None = None

    def ended(self, name: Name, began: float, left_s: float | None) -> None:
        """Take in that gRPC has cancelled a call.

        Args:
            name: of its request.
            began: when it did, by the loop's clock.
            left_s: until its deadline; None: it has none.
        """
        if self._goes_on(name, began, left_s) or len(self._names) >= _WAITING_MAX:
            return
        with suppress(InvalidRequest):  # nobody has such a request: all of a list would be refused
            check_name("tenant", name[0])
            check_name("request id", name[1])
            self._add(name)

    def _add(self, name: Name) -> None:
        self._names[name] = None
        if self._task is None:
            # It is nobody's: one who has had its share keeps no other's cancel away (`shares`).
            self._task = asyncio.get_running_loop().create_task(self._cancel(), context=Context())

    def _goes_on(self, name: Name, began: float, left_s: float | None) -> bool:
        node, limits = self._node, self._node.config.server
        if node.phase is Phase.STOPPING or (left_s is not None and left_s < _DEADLINE_S):
            return True
        now = asyncio.get_running_loop().time()
        is_old = now - self.since > _AGE * limits.connection_age_ms_max / 1000
        if is_old and now - began > _GRACE * limits.connection_grace_ms_max / 1000:
            return True
        return node.api.is_awaited(*name)

    async def _cancel(self) -> None:
        """Have all cancelled; what cannot be goes on, as it does where a caller is not missed."""
        try:
            while self._names:
                tenant, _ = next(iter(self._names))
                most = min(_NAMES_MAX, self._node.config.scheduler.api.names_max)
                names = [name for name in self._names if name[0] == tenant][:most]
                for name in names:
                    del self._names[name]
                with suppress(RaftbatchError, Fatal):
                    asked = self._forwarder if self._forwarder.wants(True) else self._node.api
                    await asked.cancel(names)
        finally:
            self._task = None
