"""How a client behaves. Every setting has its meaning, unit and danger here, and a default.

What lives here: settings of the SDK. What must never live here: what a node is asked.
Called by: whoever makes a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raftbatch.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class TLS:
    """Certificates, in PEM, where the cluster wants them.

    Attributes:
        ca: of the cluster's authority.
        certificate: of this client; empty, as the key: it shows none, where none is asked for.
        key: of that certificate.
        names: which node is at an address: a node's certificate bears its name. Where that
            is not known yet, the certificate must be the host's.
    """

    ca: bytes
    certificate: bytes = b""
    key: bytes = b""
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Settings of a client.

    Attributes:
        tenant: whose requests they are; empty: `default`.
        patience_s: how long an answer is waited for where the call gives no timeout;
            None: for ever. What is given up then is cancelled.
        connect_timeout_s: how long the nodes that are named at the start are tried before
            the client says that none of them answers. Afterwards it knows all nodes, and
            tries for as long as each call lasts.
        pending_max: calls that may be under way; the next is refused with `overloaded`. A
            bound on this process's memory: keep it above what `map` has in flight.
        acknowledges: whether the cluster is told, in the background, that an outcome was
            read, and may go. Without it outcomes stay for their whole retention, and the
            cluster takes nothing new once they fill its bound, unless `acknowledge` is called.
        close_timeout_s: how long `close` waits for what is to be said in the background.
        forward: whether any node may be asked, and hands on to the leader what is the leader's:
            for clients that do not reach all nodes. It costs the cluster a hop and a copy of each
            request; else the client goes to the leader by itself.
        tls: None: without.
        cluster: the cluster's name, as its configuration file has it: a node of another one
            refuses then. Empty: whichever cluster the addresses belong to.
    """

    tenant: str = ""
    patience_s: float | None = 60.0
    connect_timeout_s: float = 5.0
    pending_max: int = 100_000
    acknowledges: bool = True
    close_timeout_s: float = 2.0
    forward: bool = False
    tls: TLS | None = None
    cluster: str = ""

    def __post_init__(self) -> None:
        if self.patience_s is not None and not self.patience_s > 0:
            raise InvalidRequest(f"patience_s is {self.patience_s}: it must be above 0, or None")
        if not self.connect_timeout_s > 0 or not self.close_timeout_s > 0:
            raise InvalidRequest("connect_timeout_s and close_timeout_s must be above 0")
        if self.pending_max < 1:
            raise InvalidRequest("pending_max must be from 1")
