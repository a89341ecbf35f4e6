"""The node that pysyncobj knows: each private name that is overridden is there, and is ours."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from pysyncobj import SyncObj
from pysyncobj import syncobj as base

from coordinator.raft import syncobj
from coordinator.raft.core import Core
from coordinator.raft.messages import AppendEntries, AppendReply, Message, PreVoteReply, VoteReply
from coordinator.raft.replication import Window
from coordinator.raft.standing import Role
from coordinator.raft.syncobj import POISONED, HardenedSyncObj, Peer, PeerTransport, check_source
from coordinator.raft.timing import MS, Timing
from raftbatch.errors import CannotStart, Invariant
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N1, N2, N3, FakeFetch, FakeLog, FakeStore

_PAGE = Path(__file__).parents[2] / "docs" / "RAFT.md"


class Shell:
    """n1 of three: a core in pysyncobj's shell, and what it sends."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.sent: list[tuple[NodeId, Message]] = []
        self.core = Core(
            N1,
            1,
            FakeLog(1, 1),
            FakeStore(),
            FakeFetch(),
            Timing(),
            Window(),
            lambda bound: 0,
            lambda: True,
            lambda: None,
            0,
        )
        self.transport = PeerTransport(lambda to, message: self.sent.append((to, message)))
        self.node = HardenedSyncObj(self.transport, self.core, lambda: self.now_ns)

    def lead(self) -> None:
        """Become the leader of term 2."""
        for peer in (N2, N3):
            self.transport.came(peer, 1)
        while self.core.election.phase.value == "waiting":
            self.now_ns += 50 * MS
            self.node.doTick(0.0)
        self.transport.arrived(N2, PreVoteReply(2, True, 1))
        self.transport.arrived(N2, VoteReply(2, True))

    def seen(self, name: str) -> Any:
        """Return one of the base's private fields."""
        return getattr(self.node, f"_SyncObj__{name}")


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_source_that_was_changed_is_refused() -> None:
    path = base.__file__
    assert path is not None
    with open(path, "rb") as file:
        source = file.read()
    check_source(path, source)
    with pytest.raises(CannotStart, match=r"pip install pysyncobj==0\.3\.17"):
        check_source(path, source + b"\n")


def test_changed_source_stops_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncobj, "_SOURCE_SHA256", "0" * 64)
    with pytest.raises(CannotStart):
        syncobj._check_installed()


@pytest.mark.parametrize("name", POISONED)
def test_poisoned_method_exists_in_the_base_and_never_runs(shell: Shell, name: str) -> None:
    mangled = f"_SyncObj{name}" if name.startswith("__") else name
    assert mangled in vars(SyncObj)
    with pytest.raises(Invariant, match=f"own {name} must never run"):
        getattr(shell.node, mangled)(1, 2)


def _overridden() -> list[str]:
    """Return what the subclass defines, but for its own names."""
    own = {"core", "first_values", "now_ns"}
    return [
        name
        for name in vars(HardenedSyncObj)
        if name.startswith("_SyncObj__") or (name in vars(SyncObj) and not name.startswith("__"))
        if name not in own
    ]


def _assigned_by_the_base() -> set[str]:
    """Return the private fields that the base's constructor fills in."""
    tree = ast.parse(inspect.getsource(base))
    return {
        f"_SyncObj{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def test_every_overridden_name_exists_in_the_base() -> None:
    names = _overridden()
    assert {"_onTick", "_SyncObj__onMessageReceived", "_SyncObj__raftState"} <= set(names)
    fields = _assigned_by_the_base()
    for name in names:
        if isinstance(vars(HardenedSyncObj)[name], property):
            assert name in fields, f"pysyncobj has no field {name}"
        else:
            assert callable(getattr(SyncObj, name, None)), f"pysyncobj has no method {name}"


def test_messages_of_the_transport_reach_the_core(shell: Shell) -> None:
    shell.transport.came(N2, 1)
    shell.transport.arrived(N2, AppendEntries(1, 2, 1, (), 0, 1))
    assert shell.core.standing.leader == N2
    assert shell.core.standing.outbox[-1].message == AppendReply(1, 2, 0, 0, 0, 1)


def test_connections_reach_core_and_base(shell: Shell) -> None:
    shell.lead()
    assert shell.core.replication is not None
    progress = shell.core.replication.progress
    assert progress[N2].is_connected
    assert shell.node.isNodeConnected(Peer(N2))
    assert shell.node.hasQuorum
    shell.transport.went(N2)
    assert not progress[N2].is_connected
    assert not shell.node.isNodeConnected(Peer(N2))


def test_tick_reaches_the_core_alone(shell: Shell) -> None:
    shell.now_ns += 50 * MS
    shell.node.doTick(0.0)
    assert shell.core.deadline_ns == 150 * MS
    assert shell.sent == [], "nothing is sent but by the driver"


def test_transport_sends_what_is_released(shell: Shell) -> None:
    shell.transport.send(Peer(N3), VoteReply(1, True))
    assert shell.sent == [(N3, VoteReply(1, True))]


def test_base_sees_the_cores_state(shell: Shell) -> None:
    node = shell.node
    assert not node._isLeader()
    assert node._getLeader() is None
    shell.lead()
    assert shell.core.standing.role is Role.LEADER
    assert node._isLeader()
    assert node._getLeader() == Peer(N1)
    assert node._getTerm() == 2
    assert shell.seen("votedForNodeId") == N1
    status = node.getStatus()
    assert (status["state"], status["leader"], status["raft_term"]) == (2, Peer(N1), 2)
    shell.transport.arrived(N2, AppendReply(2, 3, 0, 0, 0, 1))
    status = node.getStatus()
    assert status["commit_idx"] == shell.core.standing.commit == 3
    assert (status["match_idx_server_n2"], status["match_idx_server_n3"]) == (3, 0)
    assert (status["next_node_idx_server_n2"], status["next_node_idx_server_n3"]) == (4, 3)
    shell.transport.arrived(N3, AppendEntries(3, 3, 2, (), 0, 1))
    assert not node._isLeader()
    assert node._getLeader() == Peer(N3)
    assert node.getStatus()["match_idx_count"] == 0


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, value in vars(HardenedSyncObj).items()
        if isinstance(value, property) and name.startswith("_SyncObj__")
    ],
)
def test_base_cannot_set_the_cores_state(shell: Shell, name: str) -> None:
    before = getattr(shell.node, name)
    with pytest.raises(Invariant, match="which is the core's"):
        setattr(shell.node, name, 7)
    assert getattr(shell.node, name) == before


def test_every_other_method_of_the_base_is_known() -> None:
    """A method that is neither ours nor poisoned was looked at: it tells, or only keeps books."""
    mangled = {f"_SyncObj{name}" if name.startswith("__") else name for name in POISONED}
    rest = {name for name, value in vars(SyncObj).items() if callable(value)}
    rest -= mangled | set(vars(HardenedSyncObj)) | {"__init__"}
    books = {"addOnTickCallback", "removeOnTickCallback", "doTick", "__callErrCallback"}
    ends = {"destroy", "destroy_synchronous", "_destroy", "_doDestroy", "tick_thread_alive"}
    connections = {"__onReadonlyNodeConnected", "__onReadonlyNodeDisconnected"}
    tells = {
        *("isNodeConnected", "isReady", "_isReady", "waitReady", "waitBinded", "_isLeader"),
        *("_getLeader", "_getTerm", "getStatus", "_getStatus", "printStatus", "_printStatus"),
        *("getCodeVersion", "_getFuncName", "_getRaftLogSize", "_getConf", "_getEncryptor"),
        *("__generateRaftTimeout", "__getCurrentLogIndex", "__getCurrentLogTerm", "__getEntries"),
        *("__getPrevLogIndexTerm", "__connectedToAnyone"),
        *("__setCodeVersion", "__onSetCodeVersion"),  # the constructor's
    }
    known = {
        f"_SyncObj{name}" if name.startswith("__") else name
        for name in books | ends | connections | tells
    }
    assert rest == known


def test_nothing_runs_by_itself(shell: Shell) -> None:
    """No thread and no file: pysyncobj's own are off."""
    conf = shell.seen("conf")
    assert (conf.autoTick, conf.journalFile, conf.fullDumpFile) == (False, None, None)
    assert not shell.node.tick_thread_alive()
    assert getattr(shell.node, "_SyncObj__thread", None) is None
    assert getattr(shell.node, "_SyncObj__pipeNotifier", None) is None


def test_peers_hash_alike_in_every_process() -> None:
    assert hash(Peer(N1)) == int.from_bytes(b"n1", "little")
    assert Peer(N1) == Peer(NodeId("n1")) != Peer(N2)
    assert Peer(N1) != "n1"
    assert repr(Peer(N1)) == "n1"


def test_page_maps_every_override_and_every_fault_to_tests_that_exist() -> None:
    """docs/RAFT.md: each overridden name, each fault that the code cites by number, each script."""
    page = _PAGE.read_text(encoding="utf-8")
    ours = [name.removeprefix("_SyncObj") for name in _overridden()]
    assert {"__onNodeConnected", "_onTick", "__raftMatchIndex"} <= set(ours)
    missing = [name for name in (*ours, *POISONED) if f"`{name}`" not in page]
    assert not missing, "docs/RAFT.md says nothing of these"
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    faults = [row for row in rows if row[0].removeprefix("| ").isdecimal()]
    assert [int(row[0].removeprefix("| ")) for row in faults] == list(range(1, 41))
    assert all(len(row) == 4 for row in faults)
    scripts = [path.stem for path in (_PAGE.parents[1] / "tests/scenarios").glob("*.txt")]
    for row in faults:
        for name in row[-1].removesuffix(" |").split(", "):
            known = name.startswith("`tests/") or name in scripts
            assert known or any(script.startswith(f"{name}_") for script in scripts), name
