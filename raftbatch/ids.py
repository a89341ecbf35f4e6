"""Names of things: NewTypes, so that an id of one kind cannot stand for another.

What lives here: ids and the checks of their form. What must never live here:
state, I/O. Called by: everything.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import NewType

NodeId = NewType("NodeId", str)
"""A coordinator's name in the configuration, e.g. `n1`; also its certificate's name."""

ClusterId = NewType("ClusterId", str)
"""32 hexadecimal digits, drawn at random when a cluster is first started."""

_NODE_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62})")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]{2,60}\]")
_PORT = re.compile("[0-9]{1,5}")
_CLUSTER_ID = re.compile(r"[0-9a-f]{32}")

REQUEST_ID_TAIL_BYTES = 10
"""Random bytes of a request id: 80 bits, of which no two are ever alike."""


def is_address(text: str) -> bool:
    """Return whether a text is of the form `host:port` or `[v6]:port`. Total. Deterministic."""
    host, colon, port = text.rpartition(":")
    is_port = _PORT.fullmatch(port) is not None and 1 <= int(port) <= 65_535
    return bool(colon) and is_port and _HOST.fullmatch(host) is not None


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches a `host:port`. Total. Deterministic."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"  # of another name, who knows what it stands for


def is_node_id(text: str) -> bool:
    """Return whether a text has the form of a node id. Total. Deterministic."""
    return _NODE_ID.fullmatch(text) is not None


def is_cluster_id(text: str) -> bool:
    """Return whether a text has the form of a cluster id. Total. Deterministic."""
    return _CLUSTER_ID.fullmatch(text) is not None


def make_request_id(at_ms: int, tail: str) -> str:
    """Return a request id: 32 hexadecimal digits, 48 bits of time and 80 of chance.

    Ids sort as the milliseconds in which they were made. Total. Deterministic.

    Args:
        at_ms: wall time, from 1970.
        tail: `REQUEST_ID_TAIL_BYTES` random bytes, in hexadecimal digits.
    """
    return f"{at_ms & 0xFFFF_FFFF_FFFF:012x}{tail}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose data a directory holds.

    Attributes:
        cluster_id: the cluster it belongs to.
        node_id: the node it belongs to.
        incarnation: which life of that node, from 1; a node that lost its disk
            is added again under a higher one.

    Raises:
        ValueError: a part is not of its form.
    """

    cluster_id: ClusterId
    node_id: NodeId
    incarnation: int

    def __post_init__(self) -> None:
        if not is_cluster_id(self.cluster_id):
            raise ValueError(f"cluster id {self.cluster_id!r} is not 32 hexadecimal digits")
        if not is_node_id(self.node_id):
            raise ValueError(
                f"node id {self.node_id!r} must be 1 to 63 letters, digits, dots, dashes or "
                "underscores, beginning with a letter or digit"
            )
        if not 1 <= self.incarnation < 1 << 63:
            raise ValueError(f"incarnation {self.incarnation} is not in 1 .. 2**63 - 1")

    def __str__(self) -> str:
        """Return `n1 (incarnation 1) of cluster 0123…`."""
        return f"{self.node_id} (incarnation {self.incarnation}) of cluster {self.cluster_id}"
