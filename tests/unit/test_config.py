"""The configuration file: what is read, and what is wrong is said with file and key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.api import ApiConfig
from coordinator.config import ServerLimits, load_all, load_node
from coordinator.raft.timing import Timing
from raftbatch.config import Certificates, load
from raftbatch.errors import InvalidRequest
from raftbatch.ids import is_loopback
from raftbatch.realworld import RealFiles
from raftbatch.records import PutModel
from raftbatch.roles import Role
from raftbatch.settings import Model
from tests.tidy.tree import ROOT

FILES = RealFiles()
GOOD = """
[cluster]
name = "test"

[nodes.n1]
peer = "127.0.0.1:8003"
client = "127.0.0.1:8001"

[nodes.n2]
peer = "127.0.0.1:8013"
client = "127.0.0.1:8011"
"""
TLS = """
[tls]
ca = "ca.pem"
cert = "{node}.pem"
key = "keys/{node}.key"
"""


def write(folder: Path, text: str) -> str:
    """Write a file; return its path."""
    path = folder / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_config_reads_what_a_node_is_told(tmp_path: Path) -> None:
    text = GOOD + "[timing]\nheartbeat_ms = 20\n[log]\nmessage_bytes_max = 500\n"
    text += "stagger_bytes = 7\n[storage]\nsnapshots_kept_max = 5\nsegment_bytes = 8192\n"
    config = load_node(FILES, write(tmp_path, text), "n2")
    assert config.addresses.client == config.addresses.client_listen == "127.0.0.1:8011"
    assert config.founders.voters == ("n1", "n2")
    assert config.data_dir == f"{tmp_path}/data/n2"
    assert config.log.timing == Timing(heartbeat_ms=20)
    assert (config.log.window.message_bytes_max, config.log.stagger_bytes) == (500, 7)
    assert config.storage.retention.snapshots_kept_max == 5
    assert config.storage.retention.log_retention_ms == 86_400_000
    assert config.storage.journal.segment_bytes == 8192
    assert config.server == ServerLimits()
    assert config.certificates is None


def test_config_replicates_requests_unless_told_otherwise(tmp_path: Path) -> None:
    assert not load(FILES, write(tmp_path, GOOD)).is_opaque
    opaque = GOOD.replace('name = "test"', 'name = "test"\nreplica = "opaque"')
    assert load(FILES, write(tmp_path, opaque)).is_opaque
    other = GOOD.replace('name = "test"', 'name = "test"\nreplica = "other"')
    with pytest.raises(InvalidRequest, match=r"cluster\.replica is 'other': it is 'scheduler' or"):
        load(FILES, write(tmp_path, other))


def test_config_makes_paths_relative_to_the_file(tmp_path: Path) -> None:
    text = GOOD + TLS + "[storage]\ndata_dir = '../x/{node}'\n"
    config = load_node(FILES, write(tmp_path, text), "n1")
    assert config.data_dir == f"{tmp_path.parent}/x/n1"
    assert config.certificates is not None
    assert config.certificates.key == f"{tmp_path}/keys/n1.key"


def test_config_lets_a_node_have_its_own_directory_and_listen_elsewhere(tmp_path: Path) -> None:
    text = GOOD + TLS
    text = text.replace('"127.0.0.1:8011"', '"b.example:8011"\nclient_listen = "0.0.0.0:9"\n', 1)
    text = text.replace("[nodes.n2]", '[nodes.n2]\ndata_dir = "/var/lib/raftbatch"')
    config = load_node(FILES, write(tmp_path, text), "n2")
    assert config.data_dir == "/var/lib/raftbatch"
    assert (config.addresses.client, config.addresses.client_listen) == (
        "b.example:8011",
        "0.0.0.0:9",
    )


def test_config_has_a_port_for_http_where_one_is_named(tmp_path: Path) -> None:
    assert load_node(FILES, write(tmp_path, GOOD), "n1").addresses.http == ""
    one = GOOD + 'http = "127.0.0.1:8010"\n'
    found = load_node(FILES, write(tmp_path, one), "n2").addresses
    assert (found.http, found.http_listen) == ("127.0.0.1:8010", "127.0.0.1:8010")
    text = GOOD + 'http = "b.example:8010"\nhttp_listen = "0.0.0.0:8010"\n' + TLS
    found = load_node(FILES, write(tmp_path, text), "n2").addresses
    assert (found.http, found.http_listen) == ("b.example:8010", "0.0.0.0:8010")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name =", "nmae =", "cluster.nmae is unknown: the nearest is name"),
        ("[cluster]", "[clutser]", "clutser is unknown: the nearest is cluster"),
        ("peer =", "peeer =", "nodes.n1.peeer is unknown: the nearest is peer"),
        ("", "[timing]\nheartbeet_ms = 5", "timing.heartbeet_ms is unknown: the nearest is hear"),
        ("", "[log]\nstagger = 5", "log.stagger is unknown: the nearest is stagger_bytes"),
        ("", "[storage]\nsegments_bytes = 5", "the nearest is segment_bytes"),
        ("", "[server]\nx = 5", "server.x is unknown: the nearest is "),
        ("", "[tls]\ncertificate = 'a'", "tls.certificate is unknown: the nearest is cert"),
        ("", "[timing]\nheartbeat_ms = '5'", "timing.heartbeat_ms is '5', which is no whole"),
        ("", "[timing]\nheartbeat_ms = true", "timing.heartbeat_ms is True, which is no whole"),
        ("", "[timing]\nheartbeat_ms = 1.5", "timing.heartbeat_ms is 1.5, which is no whole"),
        ("", "[timing]\nheartbeat_ms = 200", "timing: election_ms_min = 300 is less than three"),
        ("", "[storage]\nsegment_bytes = 1", "storage: segment_bytes = 1 is less than 4096"),
        ("", "[storage]\ndisk_reserve_bytes = 1", "storage: disk_reserve_bytes = 1 is less"),
        ("", "[storage]\nsnapshots_kept_max = 0", "storage: snapshots_kept_max is 0"),
        ("", "[storage]\ndata_dir = 5", "storage.data_dir is 5, which is no text"),
        ("", "[server]\nstop_ms_max = 100", "server: stop_ms_max = 100 is not more than"),
        ("", "[server]\nmessage_bytes_max = 9", "server: message_bytes_max = 9 does not hold"),
        ("", "[transport]\nmessage_bytes_max = 9", "transport: message_bytes_max = 9 does not ho"),
        ("", "[transport]\nbulk_bytes_max = 9_000_000", "is less than a full window and the larg"),
        ("", "[tls]\nca = 'a'\ncert = 'b'", "tls.key is missing"),
        ("", "[tls]\nca = 'a'\ncert = 'b'\nkey = 'c'\ninsecure = true", "choose one of them"),
        ("", "[tls]\ninsecure = 1", "tls.insecure is 1, which is neither true nor false"),
        ('name = "test"', "", "cluster.name is missing"),
        (
            "",
            TLS + "[tls.roles]\noperators = []",
            "tls.roles.operators is unknown: the nearest is oper",
        ),
        (
            "",
            TLS + "[tls.roles]\nclient = 'web'",
            "tls.roles.client is 'web', which is no list of n",
        ),
        (
            "",
            TLS + "[tls.roles]\nclient = [1]",
            "tls.roles.client is [1], which is no list of names",
        ),
        ("", TLS + "asks_clients = 1", "tls.asks_clients is 1, which is neither true nor false"),
        ("", "[tls]\nasks_clients = false", "tls.ca is missing"),
        ("", TLS + "asks_clients = false", "tls.roles.client is missing, and tls.asks_clients is"),
        (
            "",
            TLS + "asks_clients = false\n[tls.roles]\nclient = ['*']\noperator = ['alice']",
            "tls.roles.operator names certificates, but tls.asks_clients is false",
        ),
        ('name = "test"', f"name = '{'x' * 129}'", "cluster.name is no name: 128 printable"),
        ('name = "test"', 'name = "\\u001b"', "cluster.name is no name: 128 printable"),
        ('name = "test"', "name = 5", "cluster.name is 5, which is no text"),
        ('"127.0.0.1:8013"', '"127.0.0.1:8003"', "nodes.n2.peer is 127.0.0.1:8003, as nodes.n1.pe"),
        ('"127.0.0.1:8003"', '"127.0.0.1"', "nodes.n1.peer is '127.0.0.1', which is not of the"),
        ('"127.0.0.1:8003"', '"127.0.0.1:99999"', "is not of the form host:port"),
        ('"127.0.0.1:8003"', '"127.0.0.1:0"', "is not of the form host:port"),
        ('"127.0.0.1:8003"', '"0.0.0.0:8003"', "nodes.n1.peer is 0.0.0.0:8003, which nobody can"),
        ('"127.0.0.1:8003"', '"10.0.0.1:8003"', "nodes.n1.peer is 10.0.0.1:8003, which other mach"),
        ('"127.0.0.1:8001"', '"10.0.0.1:8001"', "nodes.n1.client is 10.0.0.1:8001, which other ma"),
        (
            "[nodes.n2]",
            "peer_listen = '0.0.0.0:1'\n[nodes.n2]",
            "n1.peer_listen is 0.0.0.0:1,",
        ),
        (
            "[nodes.n2]",
            "client_listen = '[::]:1'\n[nodes.n2]",
            "n1.client_listen is [::]:1, w",
        ),
        ("", 'http = "127.0.0.1:8013"', "nodes.n2.http is 127.0.0.1:8013, as nodes.n2.peer is"),
        ("", 'http = "10.0.0.1:8000"', "nodes.n2.http is 10.0.0.1:8000, which other machines"),
        ("", 'http = "0.0.0.0:8000"', "write that as http_listen"),
        ("", 'http_listen = "127.0.0.1:8000"', "nodes.n2.http_listen is given, but not http"),
        ("", "http = 8000", "nodes.n2.http is 8000, which is no text"),
        ("", "[server]\nhttp_connections_max = 0", "http_connections_max = 0 is less than 1"),
        ("[nodes.n2]", "[nodes.'-']", "nodes.- is no name of a node"),
        ("", "[[storage]]\nx = 1", "storage is [{'x': 1}], which is no table"),
        ("[cluster]", "[cluster", "at line 2"),
    ],
)
def test_config_names_what_is_wrong(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = GOOD.replace(old, new, 1) if old else GOOD + new + "\n"
    path = write(tmp_path, text)
    with pytest.raises(InvalidRequest) as caught:
        load_node(FILES, path, "n1")
    assert caught.value.message.startswith(f"{path}: ")
    assert said in caught.value.message


def test_config_names_the_nodes_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no node 'n3', only n1, n2"):
        load_node(FILES, write(tmp_path, GOOD), "n3")


def test_config_refuses_two_nodes_in_one_directory(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "[storage]\ndata_dir = 'data'\n")
    with pytest.raises(InvalidRequest, match="n1 and n2 have the same data_dir"):
        load_all(FILES, path)


def test_config_says_why_a_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"nothing\.toml: No such file"):
        load(FILES, f"{tmp_path}/nothing.toml")
    path = tmp_path / "cluster.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidRequest, match="utf-8"):
        load(FILES, str(path))
    path.write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(InvalidRequest, match="this is no configuration"):
        load(FILES, str(path))


@pytest.mark.parametrize("text", ["a = " + "[" * 5_000, "a = " + "{ b = " * 5_000])
def test_config_of_endless_depth_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"deep\.toml"):
        load(FILES, str(path))


def test_config_lets_a_trusted_network_be_plain(tmp_path: Path) -> None:
    text = GOOD.replace("127.0.0.1", "10.0.0.1") + "[tls]\ninsecure = true\n"
    assert load_node(FILES, write(tmp_path, text), "n1").certificates is None


def test_config_lets_a_node_be_told_beside_the_file_that_its_network_is_trusted(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, GOOD.replace("127.0.0.1", "10.0.0.1"))
    with pytest.raises(InvalidRequest, match="or start nodes with --insecure"):
        load_all(FILES, path)
    assert load_node(FILES, path, "n1", is_insecure=True).cluster.is_insecure
    assert [each.cluster.is_insecure for each in load_all(FILES, path, is_insecure=True)] == [
        True
    ] * 2
    assert not load(FILES, path).is_secure  # who only calls is not asked
    with pytest.raises(InvalidRequest, match=r"--insecure is given, but certificates are named"):
        load_node(FILES, write(tmp_path, GOOD + TLS), "n1", is_insecure=True)


def test_config_may_ask_clients_for_no_certificates(tmp_path: Path) -> None:
    text = GOOD + TLS + "asks_clients = false\n[tls.roles]\nclient = ['*']\n"
    found = load(FILES, write(tmp_path, text))
    assert not found.asks_clients
    nothing = Certificates(f"{tmp_path}/ca.pem", "", "")
    assert found.operator() == found.executor("gpu-1") == nothing
    text = text.replace("[tls.roles]", "executor_cert = 'x.pem'\nexecutor_key = 'x'\n[tls.roles]")
    shown = load(FILES, write(tmp_path, text)).executor("gpu-1")
    assert shown is not None
    assert shown.cert == f"{tmp_path}/x.pem"


def test_config_has_an_operator_where_one_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + TLS)
    with pytest.raises(InvalidRequest, match=r"tls\.operator_cert is missing"):
        load(FILES, path).operator()
    path = write(tmp_path, GOOD + TLS + "operator_cert = 'o.pem'\n")
    with pytest.raises(InvalidRequest, match="are named together or not at all"):
        load(FILES, path)
    path = write(tmp_path, GOOD + TLS + "operator_cert = 'o.pem'\noperator_key = 'o.key'\n")
    operator = load(FILES, path).operator()
    assert operator is not None
    assert operator.cert == f"{tmp_path}/o.pem"


def test_config_has_an_executors_own_certificate(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + TLS)
    with pytest.raises(InvalidRequest, match=r"tls\.executor_cert is missing"):
        load(FILES, path).executor("gpu-1")
    path = write(tmp_path, GOOD + TLS + "executor_cert = 'o.pem'\n")
    with pytest.raises(InvalidRequest, match="executor_cert and executor_key are named together"):
        load(FILES, path)
    text = "executor_cert = 'c/{executor}.pem'\nexecutor_key = 'c/{executor}.key'\n"
    found = load(FILES, write(tmp_path, GOOD + TLS + text)).executor("gpu-1")
    assert found is not None
    assert found.key == f"{tmp_path}/c/gpu-1.key"
    assert load(FILES, write(tmp_path, GOOD)).executor("gpu-1") is None


def test_config_gives_roles_to_names(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + TLS + "[tls.roles]\noperator = ['alice']\nclient = ['*']\n")
    roles = load(FILES, path).roles
    assert roles.of("alice", []) == {Role.OPERATOR, Role.CLIENT}
    assert roles.of("bob", []) == {Role.CLIENT}
    assert load(FILES, write(tmp_path, GOOD + TLS)).roles.of("alice", []) == frozenset()


def test_loopback_is_what_only_this_machine_reaches() -> None:
    for address in ("127.0.0.1:1", "127.8.9.1:1", "localhost:1", "[::1]:1"):
        assert is_loopback(address)
    for address in ("10.0.0.1:1", "example.org:1", "[::]:1", "0.0.0.0:1", "localhost.evil:1"):
        assert not is_loopback(address)


@pytest.mark.parametrize("path", sorted((ROOT / "cluster_configs").glob("*.toml")), ids=str)
def test_cluster_configs_are_right(path: Path) -> None:
    nodes = load_all(FILES, str(path))
    assert [each.node_id for each in nodes] == [f"n{n + 1}" for n in range(len(nodes))]
    assert path.stem.endswith(f"-{len(nodes)}")


def test_cluster_config_that_explains_shows_the_defaults(tmp_path: Path) -> None:
    shown = load_node(FILES, str(ROOT / "cluster_configs" / "local-3.toml"), "n1")
    default = load_node(FILES, write(tmp_path, GOOD), "n1")
    for part in ("log", "storage", "server", "scheduler", "sessions"):
        assert getattr(shown, part) == getattr(default, part), part
    *first, put = shown.founding
    assert isinstance(put, PutModel)
    assert tuple(first) == default.founding
    assert replace(put.model, config=b"") == Model("echo", "1")  # but for what it takes and gives


def test_each_call_that_was_handed_on_may_wait_for_its_index() -> None:
    assert ApiConfig().index_waits_max >= ServerLimits().calls_max
