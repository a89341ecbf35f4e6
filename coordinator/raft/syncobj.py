"""The node that pysyncobj knows, with every decision taken by the core.

The class is named `_SyncObj` on purpose: Python strips leading underscores when
it mangles private names, so in this body `__onMessageReceived` *is* the base's
private method of that name, and defining it overrides it. That couples us to
one exact release: the hash of its source is checked when this is imported.

What is pysyncobj's: the constructor, the sets of nodes, the transport interface
and its callbacks, the entry points `doTick` and `getStatus`. What is ours: all
state that must be right, which the base sees through properties, and every
rule. Base methods that would act on their own raise `Fatal`.

What lives here: routing. What must never live here: a rule of Raft. Called by:
`log`. Source: docs/RAFT.md, which maps each override to the fault it mends.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
from collections.abc import Callable
from typing import Any, NoReturn

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from coordinator.raft.core import Core
from coordinator.raft.messages import Message
from coordinator.raft.standing import Role
from raftbatch.errors import CannotStart, Invariant
from raftbatch.ids import NodeId

_SOURCE_SHA256 = "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4"
_STATES = {Role.FOLLOWER: 0, Role.CANDIDATE: 1, Role.LEADER: 2}  # pysyncobj's _RAFT_STATE

POISONED = (
    "__loadDumpFile",
    "__sendNextNodeIdx",
    "__doApplyCommand",
    "__applyLogEntries",
    "__parseChangeClusterRequest",
    "__deleteEntriesFrom",
    "__deleteEntriesTo",
    "__doChangeCluster",
    "__changeCluster",
    "__sendAppendEntries",
    "__onBecomeLeader",
    "__setCurrentTerm",
    "__setState",
    "__tryLogCompaction",
    "_autoTickThread",
    "_applyCommand",
    "_checkCommandsToApply",
    "addNodeToCluster",
    "removeNodeFromCluster",
    "setCodeVersion",
    "transferLeadership",
    "forceLogCompaction",
    "_addNodeToCluster",
    "_removeNodeFromCluster",
    "_setCodeVersion",
    "_transferLeadership",
    "_forceLogCompaction",
    "__onLeaderChanged",
    "__updateClusterConfiguration",
)
"""Methods of the base that decide, or trust, on their own: they must never run."""


def check_source(path: str, source: bytes) -> None:
    """Hold pysyncobj's source against the one that the overrides were written for.

    Raises:
        CannotStart: it is another.
    """
    found = hashlib.sha256(source).hexdigest()
    if found != _SOURCE_SHA256:
        raise CannotStart(
            f"{path} is not pysyncobj 0.3.17 as published (its SHA-256 is {found}): raftbatch "
            "overrides its private methods, so install exactly that: pip install pysyncobj==0.3.17"
        )


def _check_installed() -> None:
    spec = importlib.util.find_spec("pysyncobj.syncobj")
    assert spec is not None
    assert spec.origin is not None
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    check_source(spec.origin, spec.loader.get_data(spec.origin))


_check_installed()


class Peer(Node):
    """Another node, with a hash that is the same in every process: the base keeps sets of nodes.

    Args:
        node: which.
        incarnation: which life of it a connection leads to; 0 where that is of no account.
    """

    def __init__(self, node: NodeId, incarnation: int = 0) -> None:
        super().__init__(node)
        self.incarnation = incarnation

    def __hash__(self) -> int:
        """Return a number made of the id's bytes alone."""
        return int.from_bytes(str(self.id).encode("utf-8"), "little") % ((1 << 61) - 1)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same node."""
        return isinstance(other, Peer) and self.id == other.id

    def __repr__(self) -> str:
        """Return the id."""
        return str(self.id)


class PeerTransport(Transport):
    """pysyncobj's transport, fed by whatever carries our messages.

    Args:
        send: hands a message to the network.
    """

    def __init__(self, send: Callable[[NodeId, Message], None]) -> None:
        super().__init__(None, None, [])
        self._send = send
        self._known: dict[NodeId, Peer] = {}

    def peer(self, node: NodeId) -> Peer:
        """Return the base's name for a node: the same each time, as the base makes them slowly."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = Peer(node)
        return known

    def send(self, node: Peer, message: Message) -> None:
        """Send a message the core has released."""
        self._send(NodeId(node.id), message)

    def arrived(self, peer: NodeId, message: Message) -> None:
        """Hand in a message."""
        self._onMessageReceived(self.peer(peer), message)

    def came(self, peer: NodeId, incarnation: int) -> None:
        """Hand in that a connection was made, and to which life of the peer."""
        self._onNodeConnected(Peer(peer, incarnation))

    def went(self, peer: NodeId) -> None:
        """Hand in that a connection broke."""
        self._onNodeDisconnected(Peer(peer))


def _seen(name: str, read: Callable[[Core], object]) -> property:
    """Return a property through which the base sees a fact of the core, and never sets it.

    Until the core is there, the base's constructor fills in its first values.
    """

    def get(self: _SyncObj) -> object:
        return self.first_values[name] if self.core is None else read(self.core)

    def put(self: _SyncObj, value: object) -> None:
        if self.core is not None:
            raise Invariant(f"pysyncobj set {name}, which is the core's")
        self.first_values[name] = value

    return property(get, put)


class _SyncObj(SyncObj):
    """See the module's docstring.

    Args:
        transport: how messages come in and go out.
        core: decides.
        now_ns: reads the monotonic clock.
    """

    def __init__(
        self,
        transport: PeerTransport,
        core: Core,
        now_ns: Callable[[], int],
    ) -> None:
        self.core: Core | None = None
        self.first_values: dict[str, Any] = {}
        self.now_ns = now_ns
        conf = SyncObjConf(
            autoTick=False,  # no thread: the loop ticks
            appendEntriesUseBatch=True,  # else the base opens a pipe to wake its poller
            journalFile=None,  # the base's own journal stays in memory, and unused
            fullDumpFile=None,
        )
        own = Peer(core.standing.self_id)
        super().__init__(own, [], conf=conf, nodeClass=Peer, transport=transport)
        self.core = core

    __raftState = _seen("state", lambda core: _STATES[core.standing.role])
    __raftCurrentTerm = _seen("term", lambda core: core.standing.term)
    __votedForNodeId = _seen("vote", lambda core: core.standing.log.hard_state.vote)
    __raftCommitIndex = _seen("commit", lambda core: core.standing.commit)
    __raftLeader = _seen(
        "leader",
        lambda core: None if core.standing.leader is None else Peer(core.standing.leader),
    )
    __otherNodes = _seen(
        "others",
        lambda core: {Peer(peer) for peer in core.standing.peers},
    )
    __raftNextIndex = _seen(
        "next",
        lambda core: (
            {Peer(peer): each.next for peer, each in core.replication.progress.items()}
            if core.replication
            else {}
        ),
    )
    __raftMatchIndex = _seen(
        "match",
        lambda core: (
            {Peer(peer): each.match for peer, each in core.replication.progress.items()}
            if core.replication
            else {}
        ),
    )

    def __onMessageReceived(self, node: Peer, message: Message) -> None:
        assert self.core is not None
        self.core.receive(self.now_ns(), NodeId(node.id), message)

    def __onNodeConnected(self, node: Peer) -> None:
        super().__onNodeConnected(node)
        assert self.core is not None
        self.core.connected(self.now_ns(), NodeId(node.id), node.incarnation)

    def __onNodeDisconnected(self, node: Peer) -> None:
        super().__onNodeDisconnected(node)
        assert self.core is not None
        self.core.disconnected(self.now_ns(), NodeId(node.id))

    def _onTick(self, timeToWait: float = 0.0) -> None:  # noqa: N803, ARG002 - the base's names
        assert self.core is not None
        self.core.tick(self.now_ns())


def _poison(name: str) -> Callable[..., NoReturn]:
    def poisoned(*_: object, **__: object) -> NoReturn:
        raise Invariant(f"pysyncobj's own {name} must never run")

    return poisoned


for _name in POISONED:
    _mangled = f"_SyncObj{_name}" if _name.startswith("__") else _name
    assert hasattr(SyncObj, _mangled), f"pysyncobj has no {_name}"
    setattr(_SyncObj, _mangled, _poison(_name))

HardenedSyncObj = _SyncObj
