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

_DIGEST_DIGITS = 16


def about_founding(config: NodeConfig) -> About:
    """Return what must be equal for nodes to found a cluster together."""
    hashes = {"policy": hashlib.sha256(), "models": hashlib.sha256()}
    for record in config.founding:
        hashes["policy" if isinstance(record, PutPolicy) else "models"].update(
            encode_record(record)
        )
    digests = [
        (key, f"sha-256 {each.hexdigest()[:_DIGEST_DIGITS]}") for key, each in hashes.items()
    ]
    return _about(config, [*_equal(config), *digests])


def about_running(config: NodeConfig) -> About:
    """Return what a node says while the cluster runs."""
    shown = [
        ("server.message_bytes_max", config.server.message_bytes_max),
        ("leader.lease_ms", config.scheduler.leader.lease_ms),
        ("api.timeout_ms_max", config.scheduler.api.timeout_ms_max),
    ]
    return _about(config, [*_equal(config), *shown])


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
    return About(config.addresses.client, "", tuple(sorted(pairs)))
