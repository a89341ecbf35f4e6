"""Asking whether this node is still a member, where nobody tells it.

A node that was removed while it was down is called by nobody any more, and those
whom it would have been called by it does not call. So a node that has known no
leader for a while says Hello to them out of turn: they refuse it, for that reason
or for a better one.

What lives here: that question. What must never live here: what follows from the
answer (`ReplicatedLog.refused`). Called by: the composition root, as a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from coordinator.raft.door import exchange
from coordinator.raft.greeting import Hello, Refused
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.transport import Transport
from raftbatch.errors import StaleIncarnation
from raftbatch.ids import NodeId
from raftbatch.world import TLS, Network

PAUSE_S = 1.0
"""Between two looks; a leader is unknown for less than that as a rule."""

_QUESTION_S = 2.0


async def recall(
    network: Network,
    tls: TLS | None,
    log: ReplicatedLog,
    transport: Transport,
    seeds: Mapping[NodeId, str],
) -> None:
    """Ask now and then, while no leader is known, until cancelled."""
    own = log.identity
    while True:
        await asyncio.sleep(PAUSE_S)
        if log.leader is not None or log.failure is not None:
            continue
        known = {each.node_id: each.address for each in transport.states if each.incarnation == 0}
        for node, address in {**seeds, **known}.items():
            if node >= own.node_id or not address:
                continue
            hello = Hello(own.cluster_id, own.node_id, own.incarnation, node)
            try:
                answer = await _asked(network, tls, address, hello)
            except OSError:
                continue
            if isinstance(answer, Refused) and answer.slug == StaleIncarnation.slug:
                log.refused(node, answer.text)


async def _asked(network: Network, tls: TLS | None, address: str, hello: Hello) -> object:
    async with asyncio.timeout(_QUESTION_S):
        connection = await network.connect(address, tls)
        try:
            return await exchange(connection, hello)
        finally:
            connection.abort()
