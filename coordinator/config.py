"""What a coordinator reads from the configuration file beyond what clients do.

The tables are the dataclasses that the parts themselves define: their fields are
the keys, their defaults the defaults, and what they refuse is refused here, with
file and table in front. What lives here: that correspondence. What must never
live here: a default or a check that belongs to a part. Called by: the composition
root, `raftbatch config check`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from coordinator.api import ApiConfig
from coordinator.bounds import whole
from coordinator.feed import FeedConfig
from coordinator.founding_records import founding_records
from coordinator.leader import LeaderConfig
from coordinator.raft.datadir import StorageLimits
from coordinator.raft.log import LogConfig
from coordinator.raft.membership import Membership, founders
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits
from coordinator.raft.timing import Timing
from coordinator.raft.transport_limits import TransportLimits
from coordinator.scheduler import SchedulerConfig
from raftbatch.config import (
    NODE,
    Certificates,
    ClusterFile,
    NodeAddresses,
    load,
)
from raftbatch.errors import InvalidRequest
from raftbatch.ids import NodeId
from raftbatch.records import Record
from raftbatch.tables import Table
from raftbatch.world import Files

T = TypeVar("T")

_MESSAGE_OVERHEAD_BYTES = 1 << 20  # indices and lengths of the entries, the pieces of a snapshot
_DATA_DIR = f"data/{NODE}"
_RETENTION = RetentionLimits(
    log_retention_bytes=1 << 30, log_retention_ms=24 * 3_600_000, trailing_entries=10_000
)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of a node's client port, of its HTTP port, and of its end.

    Attributes:
        message_bytes_max: largest message of a client. Must hold the largest entry.
        stream_bytes_max: data that one stream may have under way: proposed, and not
            answered. Beyond it nothing more is read from the stream until answers
            have left, so a client is slowed down and not refused.
        streams_max: streams of opaque entries, of all clients together; one more is refused. So
            many messages of message_bytes_max may be in memory.
        calls_max: calls of all together, each session and each executor's tail among them; one
            more is refused at once, by gRPC, which says no more. More than what is bounded below
            it, so that executors, operators and whoever looks for a leader are always heard.
        client_calls_max: calls of clients other than sessions, of all clients together: they may
            wait for as long as sessions do. One more is refused.
        caller_calls_max: the same of one caller; see caller_sessions_max.
        connections_max: of clients; one more is closed at once. Each takes a file descriptor,
            of which the log and the peers need some too.
        connection_idle_ms_max: how long a connection may be open without a call; then it is closed,
            and the client makes another when it has something to ask. Those who forget theirs, or
            hold many, keep nobody out so.
        connection_age_ms_max: how old a connection may become, give or take a tenth; then the
            client is asked to make another, which shows its certificate anew.
        connection_grace_ms_max: how long calls that are under way, streams among them, may go on
            then; what is left is cut, and goes on over another connection.
        http_connections_max: of the HTTP port; one more ends the oldest. Each serves one request.
        http_request_ms_max: how long such a connection may take in all, to ask and to read.
        http_request_bytes_max: what may come over it.
        transfer_ms_max: how long a leader that is told to stop tries to hand over.
        drain_ms_max: how long answers that are under way are waited for then.
        stop_ms_max: how long the whole stop may take before the process ends
            itself, whatever hangs: a disk that answers no more cannot keep it alive.

    Raises:
        ValueError: they cannot hold together; the message names the two.
    """

    message_bytes_max: int = 40 << 20
    stream_bytes_max: int = 64 << 20
    streams_max: int = 64
    calls_max: int = 5000
    client_calls_max: int = 1000
    caller_calls_max: int = 500
    connections_max: int = 1000
    connection_idle_ms_max: int = 30_000
    connection_age_ms_max: int = 3_600_000
    connection_grace_ms_max: int = 10_000
    http_connections_max: int = 64
    http_request_ms_max: int = 5_000
    http_request_bytes_max: int = 16 << 10
    transfer_ms_max: int = 2_000
    drain_ms_max: int = 2_000
    stop_ms_max: int = 10_000

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            if getattr(self, each.name) < 1:
                raise ValueError(f"{each.name} = {getattr(self, each.name)} is less than 1")
        if self.stream_bytes_max < self.message_bytes_max:
            raise ValueError(
                f"stream_bytes_max = {self.stream_bytes_max} is less than message_bytes_max = "
                f"{self.message_bytes_max}: such a message could never be taken"
            )
        if self.stop_ms_max <= self.transfer_ms_max + self.drain_ms_max:
            raise ValueError(
                f"stop_ms_max = {self.stop_ms_max} is not more than transfer_ms_max + "
                f"drain_ms_max = {self.transfer_ms_max + self.drain_ms_max}"
            )


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds of clients' sessions.

    Attributes:
        sessions_max: of all clients together; one more is refused.
        caller_sessions_max: the same of one caller: of one certificate's name, or, where nobody
            shows one, of one machine. So none can take all of them.
        taking_bytes_max: payloads, and ids in lists, that one session may have on their way to the
            log; beyond it no more is read, so a client is slowed down.
        in_flight_max: what one session may have under way; more is refused, and said so.
        unread_bytes_max: answers that come while a client reads nothing, in bytes; one that lets
            more pile up is cut off. Outcomes that were known already wait until it has read others.
        forward_requests_max: what all clients together may have on its way to the leader through
            this node; more is refused. One caller may have half of what others leave of these two.
        forward_bytes_max: the same, in bytes.
        forward_ms_max: how long something is on its way there at most, with all tries, before the
            client is told that nobody took it, or that nobody knows.

    Raises:
        ValueError: one is below 1.
    """

    sessions_max: int = 1000
    caller_sessions_max: int = 500
    taking_bytes_max: int = 64 << 20
    in_flight_max: int = 16_384
    unread_bytes_max: int = 64 << 20
    forward_requests_max: int = 32_768
    forward_bytes_max: int = 64 << 20
    forward_ms_max: int = 10_000

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            if getattr(self, each.name) < 1:
                raise ValueError(f"{each.name} = {getattr(self, each.name)} is less than 1")


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """All that one node is told.

    Attributes:
        cluster: the whole file.
        node_id: which node this is.
        addresses: where it is.
        data_dir: where its data is.
        founders: the first membership, if the cluster is founded from this file.
        certificates: its own; None without TLS.
        log: settings of the replicated log.
        storage: bounds of the data directory.
        transport: bounds between coordinators.
        server: bounds of the client port.
        scheduler: settings of the scheduler.
        sessions: bounds of clients' sessions.
        founding: the first records, if the cluster is founded from this file.
    """

    cluster: ClusterFile
    node_id: NodeId
    addresses: NodeAddresses
    data_dir: str
    founders: Membership
    certificates: Certificates | None
    log: LogConfig = field(default_factory=LogConfig)
    storage: StorageLimits = field(
        default_factory=lambda: StorageLimits(
            JournalLimits(), SnapshotLimits(JournalLimits().snapshot_bytes_max), _RETENTION
        )
    )
    transport: TransportLimits = field(default_factory=TransportLimits)
    server: ServerLimits = field(default_factory=ServerLimits)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    sessions: SessionLimits = field(default_factory=SessionLimits)
    founding: tuple[Record, ...] = ()


def load_node(files: Files, path: str, node: str, *, is_insecure: bool = False) -> NodeConfig:
    """Read what one node is told.

    Args:
        files: where the file is.
        path: of it.
        node: which one.
        is_insecure: whether it is said beside the file that the network is trusted.

    Raises:
        InvalidRequest: something in the file is wrong, or it names no such node.
    """
    return _of_node(_load(files, path, is_insecure), node)


def check_as_node(files: Files, cluster: ClusterFile) -> None:
    """Read a file that was loaded as its nodes do, for whoever reads less of it.

    Raises:
        InvalidRequest: a node would refuse it, as for a key that nobody knows.
    """
    load_node(files, cluster.path, next(iter(cluster.nodes)), is_insecure=not cluster.is_secure)


def _load(files: Files, path: str, is_insecure: bool) -> ClusterFile:
    cluster = load(files, path)
    if is_insecure and cluster.is_secure:
        raise InvalidRequest(
            f"{path}: --insecure is given, but certificates are named under [tls]: leave it out, "
            "or take them out"
        )
    cluster = dataclasses.replace(cluster, is_insecure=cluster.is_insecure or is_insecure)
    cluster.check_listening()
    return cluster


def _of_node(cluster: ClusterFile, node: str) -> NodeConfig:
    addresses = cluster.node(node)
    node_id = NodeId(node)
    storage = cluster.rest["storage"]
    log = _log(cluster.rest["timing"], cluster.rest["log"])
    return NodeConfig(
        cluster=cluster,
        node_id=node_id,
        addresses=addresses,
        data_dir=(addresses.data_dir or storage.file("data_dir", _DATA_DIR)).replace(NODE, node),
        founders=_founders(cluster),
        certificates=cluster.certificates(node_id),
        log=log,
        storage=_storage(storage),
        transport=_transport(cluster.rest["transport"], storage, log.window),
        server=_server(cluster.rest["server"], cluster.rest["storage"]),
        scheduler=_scheduler(cluster.rest),
        sessions=_filled(SessionLimits, cluster.rest["sessions"]),
        founding=founding_records(cluster.rest["policy"], cluster.rest["models"]),
    )


def load_all(files: Files, path: str, *, is_insecure: bool = False) -> list[NodeConfig]:
    """Read what each node is told, and hold the nodes against each other.

    Args:
        files, path, is_insecure: as of `load_node`.

    Raises:
        InvalidRequest: something in the file is wrong.
    """
    cluster = _load(files, path, is_insecure)
    nodes = [_of_node(cluster, node) for node in cluster.nodes]
    owners: dict[str, NodeId] = {}
    for each in nodes:
        where = f"{each.addresses.peer.rpartition(':')[0]} {each.data_dir}"
        if where in owners:
            raise InvalidRequest(
                f"{path}: {owners[where]} and {each.node_id} have the same data_dir, "
                f"{each.data_dir}, and perhaps the same machine: write {NODE} into it"
            )
        owners[where] = each.node_id
    return nodes


def _founders(cluster: ClusterFile) -> Membership:
    try:
        return founders({node: each.peer for node, each in cluster.nodes.items()})
    except ValueError as error:
        raise InvalidRequest(f"{cluster.path}: nodes: {error}") from None


def _log(timing: Table, log: Table) -> LogConfig:
    timers = _filled(Timing, timing)
    within = {each.name for each in dataclasses.fields(Window)}
    own = _names(LogConfig) - {"timing", "window"}
    log.check_known((*within, *own))
    window = _filled(Window, _part(log, within))
    return _filled(LogConfig, _part(log, own), timing=timers, window=window)


def _storage(table: Table) -> StorageLimits:
    parts = (JournalLimits, RetentionLimits, SnapshotLimits)
    table.check_known(("data_dir", *(name for part in parts for name in sorted(_names(part)))))
    journal = _filled(JournalLimits, _part(table, _names(JournalLimits)))
    retention = _filled(
        RetentionLimits,
        _part(table, _names(RetentionLimits)),
        **{each: getattr(_RETENTION, each) for each in _names(RetentionLimits) - set(table.values)},
    )
    own = _names(SnapshotLimits) - _names(JournalLimits)
    snapshots = _filled(
        SnapshotLimits, _part(table, own), snapshot_bytes_max=journal.snapshot_bytes_max
    )
    return StorageLimits(journal, snapshots, retention)


def _server(table: Table, storage: Table) -> ServerLimits:
    limits = _filled(ServerLimits, table)
    entry = storage.whole("entry_bytes_max", JournalLimits().entry_bytes_max)
    if limits.message_bytes_max < entry + (1 << 10):
        raise table.wrong(
            "",
            f"message_bytes_max = {limits.message_bytes_max} does not hold an entry of "
            f"storage.entry_bytes_max = {entry} bytes, and a kibibyte around it",
        )
    return limits


def _scheduler(tables: Mapping[str, Table]) -> SchedulerConfig:
    return SchedulerConfig(
        _leader(tables["leader"], tables["storage"]),
        _filled(ApiConfig, tables["api"]),
        _filled(FeedConfig, tables["feed"]),
    )


def _leader(table: Table, storage: Table) -> LeaderConfig:
    """Read what a leader is told: what it groups leaves room for its decisions in the journal."""
    entry = storage.whole("entry_bytes_max", JournalLimits().entry_bytes_max)
    most = {"entry_bytes_max": entry // 4, "record_bytes_max": entry * 3 // 4}
    given = {
        key: min(getattr(LeaderConfig(), key), limit)
        for key, limit in most.items()
        if key not in table.values
    }
    config = _filled(LeaderConfig, table, **given)
    for key, limit in most.items():
        if getattr(config, key) > limit:
            raise table.wrong(
                key,
                f"is {getattr(config, key)}, more than {limit}, which leaves room for decisions "
                f"in an entry of storage.entry_bytes_max = {entry} bytes",
            )
    return config


def _transport(table: Table, storage: Table, window: Window) -> TransportLimits:
    limits = _filled(TransportLimits, table)
    entry = storage.whole("entry_bytes_max", JournalLimits().entry_bytes_max)
    largest = max(entry, window.message_bytes_max) + _MESSAGE_OVERHEAD_BYTES
    if limits.message_bytes_max < largest:
        raise table.wrong(
            "",
            f"message_bytes_max = {limits.message_bytes_max} does not hold the largest message, "
            f"{largest} bytes, of storage.entry_bytes_max = {entry} and log.message_bytes_max = "
            f"{window.message_bytes_max}",
        )
    if limits.bulk_bytes_max < largest + window.in_flight_bytes_max:
        raise table.wrong(
            "",
            f"bulk_bytes_max = {limits.bulk_bytes_max} is less than a full window and the largest "
            f"message, {largest + window.in_flight_bytes_max} bytes: healthy followers would lose "
            "their connection",
        )
    return limits


def _filled(kind: type[T], table: Table, **given: object) -> T:
    """Make a dataclass of whole numbers from a table; what is given is no key of it.

    Raises:
        InvalidRequest: a key is unknown, a value is no number, or the numbers
            cannot hold together.
    """
    known = _names(kind) - given.keys()
    table.check_known(sorted(known))
    numbers = {key: whole(table, key) for key in table.values}
    try:
        return kind(**numbers, **given)
    except ValueError as error:
        raise table.wrong("", str(error)) from None


def _part(table: Table, names: set[str]) -> Table:
    """Return those keys of a table that have these names."""
    values = {key: value for key, value in table.values.items() if key in names}
    return Table(table.path, table.name, values)


def _names(kind: type[object]) -> set[str]:
    assert dataclasses.is_dataclass(kind)
    return {each.name for each in dataclasses.fields(kind)}
