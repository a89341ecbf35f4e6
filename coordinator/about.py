"""What a node tells the others of its configuration: what they all should have alike.

Nodes whose files differ in what must be equal do not found a cluster together:

- the cluster's name, and what it replicates: else the files are of two clusters
- the timers of consensus: a leader's heartbeats must suit its followers' patience
- what bounds an entry, a snapshot and a message: what one node takes in, each must
- the policy and the models, of which whoever leads first writes its own into the log

What else may differ is a node's own business (its directory, its disk's watermarks,
how much of the past it keeps) or shows to clients and executors alone, which reach
another leader some day: the nodes that run say of these, as of all others, that they
differ, and go on. In a cluster that runs policy and models live in the log, and what
the files say of them counts no more.

What lives here: the keys. What must never live here: how two nodes' are compared
(`coordinator.raft.about`). Called by: the composition root. Total. Deterministic.
"""

from __future__ import annotations

import dataclasses
import hashlib

from coordinator.config import NodeConfig
from coordinator.raft.about import About, Pair
from raftbatch.codec import encode_record
from raftbatch.config import OPAQUE, SCHEDULER
from raftbatch.records import PutPolicy
from raftbatch.roles import Role

_DIGEST_DIGITS = 16


def about_founding(config: NodeConfig) -> About:
    """Return what must be equal for nodes to found a cluster together."""
    written: dict[str, list[bytes]] = {"policy": [], "models": []}
    for record in config.founding:
        written["policy" if isinstance(record, PutPolicy) else "models"].append(
            encode_record(record)
        )
    digests = [(key, _digest(b"".join(data))) for key, data in written.items()]
    return _about(config, [*_equal(config), *digests])


def about_running(config: NodeConfig) -> About:
    """Return what a node says while the cluster runs."""
    names = config.cluster.roles.names
    roles = "\n".join(f"{role.value} {sorted(names[role])}" for role in Role if names.get(role))
    shown: list[Pair] = [
        ("server.message_bytes_max", config.server.message_bytes_max),
        ("leader.lease_ms", config.scheduler.leader.lease_ms),
        ("api.timeout_ms_max", config.scheduler.api.timeout_ms_max),
        ("tls.roles", _digest(roles.encode())),
    ]
    return _about(config, [*_equal(config), *shown])


def _digest(data: bytes) -> str:
    return f"sha-256 {hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]}"


def _equal(config: NodeConfig) -> list[Pair]:
    timers = dataclasses.asdict(config.log.timing)
    return [
        ("cluster.name", config.cluster.name),
        ("cluster.replica", OPAQUE if config.cluster.is_opaque else SCHEDULER),
        *((f"timing.{key}", value) for key, value in timers.items()),
        ("storage.entry_bytes_max", config.storage.journal.entry_bytes_max),
        ("storage.snapshot_bytes_max", config.storage.snapshots.snapshot_bytes_max),
        ("log.message_bytes_max", config.log.window.message_bytes_max),
        ("transport.message_bytes_max", config.transport.message_bytes_max),
    ]


def _about(config: NodeConfig, pairs: list[Pair]) -> About:
    return About(config.addresses.client, config.addresses.http, tuple(sorted(pairs)))
