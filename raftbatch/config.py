"""The configuration file of a cluster: one TOML file, which every node and every client is given.

What lives here: reading the file, the checks that every table shares, and the
tables that a client needs: who there is, where, and with which certificates.
What must never live here: a coordinator's own settings (`coordinator.config`),
or a default that depends on the machine. Called by: the command line, the
coordinator, the SDK.

A key that is not known is an error that names the nearest one, since a limit that
was spelled wrong and silently left at its default shows only when it is needed.
Relative paths are relative to the file, so that it works from every folder.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from typing import Any

from raftbatch.errors import InvalidRequest
from raftbatch.ids import NodeId, is_address, is_loopback, is_node_id
from raftbatch.roles import ANYBODY, NOBODY, Role, Roles
from raftbatch.tables import Table
from raftbatch.world import Files

FILE_BYTES_MAX = 1 << 20
"""A file of more is no configuration."""

NODE = "{node}"
"""Stands in a path for the node's name."""

EXECUTOR = "{executor}"
"""Stands in a path for the executor's id."""

CLUSTER_NAME_BYTES_MAX = 128

TLS_FILES = ("ca", "cert", "key", "operator_cert", "operator_key", "executor_cert", "executor_key")
"""Keys of `[tls]` that name files, relative to the configuration."""

LISTENING = ("peer_listen", "client_listen", "http_listen")
"""Keys of a node that say where it listens, where that is not what others are told."""

_ADDRESSES = ("peer", "client", "http", *LISTENING)

CLIENT_TABLES = ("cluster", "nodes", "tls")
SCHEDULER_TABLES = ("leader", "api", "feed", "sessions", "policy", "models")
COORDINATOR_TABLES = ("timing", "log", "storage", "transport", "server", *SCHEDULER_TABLES)

SCHEDULER, OPAQUE = "scheduler", "opaque"
"""What the nodes replicate: requests, or, to test and measure the log alone, entries of bytes that
mean nothing. Chosen once, before the cluster is founded: neither can read the other's log."""


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """Where one node is.

    Attributes:
        peer: where other coordinators reach it, `host:port`.
        client: where clients reach it.
        peer_listen: where it listens for the former; `peer` unless told otherwise.
        client_listen: where it listens for the latter.
        data_dir: where it keeps its data; empty: as `[storage]` says for all.
        http: where HTTP is served; empty: nowhere.
        http_listen: where it listens for that; `http` unless told otherwise.
    """

    peer: str
    client: str
    peer_listen: str
    client_listen: str
    data_dir: str = ""
    http: str = ""
    http_listen: str = ""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM form.

    Attributes:
        ca: who signs all certificates of the cluster.
        cert: the certificate, with those between it and `ca` behind it; empty: none is shown.
        key: its private key.
    """

    ca: str
    cert: str
    key: str


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The file, as far as all who read it understand it.

    Attributes:
        path: the file.
        name: of the cluster, for people; nothing is derived from it.
        nodes: all nodes, in the order of their ids.
        is_secure: whether all ports speak TLS.
        is_insecure: whether they may do without it on a network that is trusted.
        tls: the table, for `certificates` and `operator`.
        rest: tables of the coordinator alone, not looked at yet.
        is_opaque: whether the entries mean nothing; see `OPAQUE`.
        roles: which certificates have a role by their names alone.
        asks_clients: whether the client port asks for certificates, where it speaks TLS.
    """

    path: str
    name: str
    nodes: dict[NodeId, NodeAddresses]
    is_secure: bool
    is_insecure: bool
    tls: Table
    rest: dict[str, Table]
    is_opaque: bool = False
    roles: Roles = NOBODY
    asks_clients: bool = True

    def without_tls(self) -> ClusterFile:
        """Return the same, as whoever has no certificates at hand may read it."""
        return replace(self, is_secure=False)

    def check_listening(self) -> None:
        """Refuse ports that other machines reach and on which nobody says who it is.

        Raises:
            InvalidRequest: there is one, and the file does not say that the network is trusted.
        """
        if self.is_secure or self.is_insecure:
            return
        for node, addresses in self.nodes.items():
            for key in _ADDRESSES:
                address = getattr(addresses, key)
                if address and not is_loopback(address):
                    raise InvalidRequest(
                        f"{self.path}: nodes.{node}.{key} is {address}, which other machines "
                        "reach, but there is no [tls]: name certificates there, or, if the network "
                        "is trusted, write insecure = true there, or start nodes with --insecure"
                    )

    def node(self, name: str) -> NodeAddresses:
        """Return a node's addresses.

        Raises:
            InvalidRequest: there is no such node; the message names those there are.
        """
        found = self.nodes.get(NodeId(name))
        if found is None:
            raise InvalidRequest(
                f"{self.path}: there is no node {name!r}, only {', '.join(self.nodes)}"
            )
        return found

    def certificates(self, node: NodeId) -> Certificates | None:
        """Return a node's own certificates; None without TLS."""
        if not self.is_secure:
            return None
        files = (self.tls.file(key).replace(NODE, node) for key in ("ca", "cert", "key"))
        return Certificates(*files)

    def operator(self) -> Certificates | None:
        """Return the certificates of whoever runs commands; None without TLS.

        Raises:
            InvalidRequest: the file names none.
        """
        if not self.is_secure:
            return None
        return self._shown("operator")

    def executor(self, name: str) -> Certificates | None:
        """Return the certificates of an executor; None without TLS.

        Raises:
            InvalidRequest: the file names none.
        """
        if not self.is_secure:
            return None
        found = self._shown("executor")
        files = (each.replace(EXECUTOR, name) for each in (found.cert, found.key))
        return Certificates(found.ca, *files)

    def _shown(self, who: str) -> Certificates:
        """Return what somebody shows to nodes: nothing, where nobody asks and none is named."""
        keys = (f"{who}_cert", f"{who}_key")
        if not self.asks_clients and keys[0] not in self.tls.values:
            return Certificates(self.tls.file("ca"), "", "")
        return Certificates(self.tls.file("ca"), *(self.tls.file(key) for key in keys))


def load(files: Files, path: str) -> ClusterFile:
    """Read a configuration file.

    Raises:
        InvalidRequest: it cannot be read, is no TOML, or something in it is wrong;
            the message names file and key.
    """
    top = Table(path, "", tables_of(files, path))
    top.check_known((*CLIENT_TABLES, *COORDINATOR_TABLES))
    cluster = top.table("cluster")
    cluster.check_known(("name", "replica"))
    replica = cluster.text("replica", SCHEDULER)
    if replica not in (SCHEDULER, OPAQUE):
        raise cluster.wrong("replica", f"is {replica!r}: it is {SCHEDULER!r} or {OPAQUE!r}")
    tls = top.table("tls")
    tls.check_known((*TLS_FILES, "roles", "insecure", "asks_clients"))
    is_insecure = tls.flag("insecure", default=False)
    is_secure = any(key != "insecure" for key in tls.values)
    if is_secure and is_insecure:
        raise tls.wrong("insecure", "is true, but certificates are named: choose one of them")
    if is_secure:
        _check_certificates(tls)
    if "nodes" not in top.values and "models" in top.values:
        raise top.wrong(
            "nodes",
            "there is none, but models: `raftbatch up` takes such a file as it is, and `raftbatch "
            "models check --config` tries its models",
        )
    nodes = _nodes(top.table("nodes"))
    rest = {name: top.table(name) for name in COORDINATOR_TABLES}
    name = cluster.text("name")
    if len(name.encode()) > CLUSTER_NAME_BYTES_MAX or not name.isprintable():
        raise cluster.wrong("name", f"is no name: {CLUSTER_NAME_BYTES_MAX} printable bytes at most")
    is_opaque = replica == OPAQUE
    roles = _roles(tls.table("roles"))
    asks_clients = tls.flag("asks_clients", default=True)
    if is_secure and not asks_clients:
        _check_nameless(tls.table("roles"), roles)
    return ClusterFile(
        path, name, nodes, is_secure, is_insecure, tls, rest, is_opaque, roles, asks_clients
    )


def _check_certificates(tls: Table) -> None:
    for key in ("ca", "cert", "key"):
        tls.text(key)
    for who in ("operator", "executor"):
        if (f"{who}_cert" in tls.values) != (f"{who}_key" in tls.values):
            raise tls.wrong("", f"{who}_cert and {who}_key are named together or not at all")


def _roles(table: Table) -> Roles:
    table.check_known(each.value for each in Role)
    names: dict[Role, frozenset[str]] = {}
    for role in Role:
        found = table.values.get(role.value, [])
        if not isinstance(found, list) or any(not isinstance(each, str) for each in found):
            raise table.wrong(role.value, f"is {found!r}, which is no list of names")
        names[role] = frozenset(found)
    return Roles(names)


def _check_nameless(table: Table, roles: Roles) -> None:
    """Refuse roles that nobody could have, where clients show no certificates."""
    for role in (Role.CLIENT, Role.EXECUTOR, Role.OPERATOR):
        if role.value in table.values and not roles.is_anybodys(role):
            raise table.wrong(
                role.value,
                "names certificates, but tls.asks_clients is false, so nobody shows one: "
                f'let everybody have the role, with {role.value} = ["{ANYBODY}"], or nobody',
            )
    if not roles.is_anybodys(Role.CLIENT):
        raise table.wrong(
            Role.CLIENT.value,
            "is missing, and tls.asks_clients is false: nobody could ask for anything. "
            f'Write client = ["{ANYBODY}"], whoever reaches the client port is one then',
        )


def _nodes(table: Table) -> dict[NodeId, NodeAddresses]:
    """Read all nodes, and hold them against each other."""
    nodes: dict[NodeId, NodeAddresses] = {}
    taken: dict[str, str] = {}
    for name in sorted(table.values):
        if not is_node_id(name):
            raise table.wrong(
                name,
                "is no name of a node: 1 to 63 letters, digits, dots, dashes or underscores, "
                "beginning with a letter or digit",
            )
        of_node = table.table(name)
        nodes[NodeId(name)] = found = _node(of_node)
        for key in ("peer", "client", "http"):
            address = getattr(found, key)
            if address in taken:
                raise of_node.wrong(key, f"is {address}, as {taken[address]} is already")
            if address:
                taken[address] = f"{of_node.name}.{key}"
    if not nodes:
        raise table.wrong("", "there is none: a cluster needs a node")
    return nodes


def _node(table: Table) -> NodeAddresses:
    table.check_known((*_ADDRESSES, "data_dir"))
    peer, client = _advertised(table, "peer"), _advertised(table, "client")
    http = _advertised(table, "http") if "http" in table.values else ""
    if "http_listen" in table.values and not http:
        raise table.wrong("http_listen", "is given, but not http: where others reach it")
    return NodeAddresses(
        peer,
        client,
        _address(table, "peer_listen", peer),
        _address(table, "client_listen", client),
        table.file("data_dir") if "data_dir" in table.values else "",
        http,
        _address(table, "http_listen", http) if http else "",
    )


def _advertised(table: Table, key: str) -> str:
    """Read an address that others are told."""
    address = _address(table, key)
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is refused here
        raise table.wrong(
            key, f"is {address}, which nobody can be sent to: write that as {key}_listen"
        )
    return address


def _address(table: Table, key: str, default: str | None = None) -> str:
    """Read `host:port` or `[v6]:port`."""
    address = table.text(key, default)
    if not is_address(address):
        raise table.wrong(key, f"is {address!r}, which is not of the form host:port")
    return address


def tables_of(files: Files, path: str) -> dict[str, Any]:
    """Return the tables of a configuration file.

    Raises:
        InvalidRequest: it cannot be read, or is no TOML; the message names it.
    """
    try:
        file = files.open(path, "read")
        try:
            data = file.read_at(0, FILE_BYTES_MAX + 1)
        finally:
            file.close()
    except OSError as error:
        raise InvalidRequest(
            f"{path}: {error.strerror or error}: the cluster's configuration file is wanted there"
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise InvalidRequest(f"{path}: more than {FILE_BYTES_MAX} bytes: this is no configuration")
    try:
        text = data.decode("utf-8")
    except ValueError as error:
        raise InvalidRequest(f"{path}: {error}") from None
    return parse(text, path)


def parse(text: str, path: str) -> dict[str, Any]:
    """Return the tables of a configuration.

    Args:
        text: of it.
        path: of its file, for errors.

    Raises:
        InvalidRequest: it is no TOML; the message names it.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{path}: {error}") from None
    except RecursionError:
        raise InvalidRequest(f"{path}: lists or tables are nested too deeply") from None
