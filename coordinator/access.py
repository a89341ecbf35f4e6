"""Which roles a certificate has here: by itself, by the file, or as a node of the cluster.

What lives here: that judgement, of which the peer port and the client port ask. What
must never live here: what a role allows. Called by: the node. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coordinator.raft.membership import Membership
from raftbatch.config import ClusterFile
from raftbatch.errors import NoLeader, PermissionDenied, RaftbatchError
from raftbatch.ids import NodeId
from raftbatch.roles import Role, lacking


class Access:
    """See the module's docstring.

    The nodes of the file are peers by their names, and so is who was ever a member: one
    that was removed is told so.

    Args:
        file: the cluster's.
        membership: returns the newest; None: there is no log yet.
    """

    def __init__(self, file: ClusterFile, membership: Callable[[], Membership | None]) -> None:
        self._file = file
        self._membership = membership

    def roles(self, name: str | None, uris: Iterable[str]) -> frozenset[Role]:
        """Return the roles of a certificate of the cluster's authority.

        Args:
            name: its common name; None: it has none, or several.
            uris: among its alternative names.
        """
        roles = self._file.roles.of(name, uris)
        return roles | {Role.PEER} if self._is_node(NodeId(name or "")) else roles

    def is_any_executors(self) -> bool:
        """Return whether a certificate may speak for every executor, whatever it is named."""
        return self._file.roles.is_anybodys(Role.EXECUTOR)

    def why_no_peer(self, name: str | None, uris: Iterable[str]) -> RaftbatchError | None:
        """Return why a certificate is no coordinator's; None if it is.

        A node that has not opened its log cannot say so of a name that only the log may know.
        """
        roles = self.roles(name, uris)
        if Role.PEER in roles:
            return None
        text = lacking(name, roles, [Role.PEER], "the peer port")
        if self._membership() is None:
            return NoLeader(f"this node is starting, and knows its file alone: by that {text}")
        return PermissionDenied(text)

    def _is_node(self, node: NodeId) -> bool:
        if node in self._file.nodes:
            return True
        membership = self._membership()
        return membership is not None and membership.next_incarnation(node) > 1
