"""Three nodes of the product on real networks that are cut, one way too, slowed and made lossy.

Whatever the network did, in the end all replicas are equal; who leads, and whether anybody else
may, is as docs/RAFT.md says. The harness sees and asks every node all the while.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.processes import LIMIT_S
from tests.fabric.cluster import NODES, FabricCluster, serving
from tests.fabric.nodes import needs_namespaces

pytestmark = [*needs_namespaces, pytest.mark.slow]

SEED = 7


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabricCluster]:
    with serving(tmp_path_factory.mktemp("cluster"), seed=SEED) as cluster:
        yield cluster


@pytest.fixture
def cluster(stage: FabricCluster) -> Iterator[FabricCluster]:
    stage.agree()
    stage.leader()
    yield stage
    stage.fabric.heal()


def _entries(word: str, count: int, size: int = 0) -> list[bytes]:
    return [f"{word} {number}".encode().ljust(size, b".") for number in range(count)]


def _is_deposed(cluster: FabricCluster, leader: str) -> bool:
    return cluster.seen(leader).role != "leader"


def test_leader_cut_off_acknowledges_nothing_and_the_others_go_on(cluster: FabricCluster) -> None:
    old = cluster.leader()
    cluster.acknowledged(old, _entries("before", 100))
    cluster.fabric.isolate(old)
    with ThreadPoolExecutor() as pool:
        pending = pool.submit(cluster.append, old, [b"nobody else hears of it"])
        new = cluster.leader_among(cluster.others(old))
        cluster.acknowledged(new, _entries("meanwhile", 100))
        cluster.until(lambda: _is_deposed(cluster, old), "end of its leadership")
        [refused] = cluster.append(old, [b"too late"])
        assert refused.error.slug in ("not_leader", "no_leader")
        assert refused.error.definite
        assert cluster.seen(old).applied < cluster.seen(new).applied
        # What it had appended before, nobody can know yet: others might have it.
        cluster.fabric.heal()
        [result] = pending.result(LIMIT_S)
    assert result.error.definite, result
    cluster.agree()
    assert cluster.leader() == new


@pytest.mark.parametrize(("hears", "speaks"), [(True, False), (False, True)])
def test_leader_that_is_heard_or_hears_alone_makes_way(
    cluster: FabricCluster, hears: bool, speaks: bool
) -> None:
    old = cluster.leader()
    cluster.fabric.isolate(old, hears=hears, speaks=speaks)
    new = cluster.leader_among(cluster.others(old))
    cluster.acknowledged(new, _entries("meanwhile", 100))
    cluster.until(lambda: _is_deposed(cluster, old), "end of its leadership")
    cluster.fabric.heal()
    cluster.agree()


@pytest.mark.parametrize(("hears", "speaks"), [(False, False), (True, False), (False, True)])
def test_follower_cut_off_does_not_disturb_the_leader_when_it_returns(
    cluster: FabricCluster, hears: bool, speaks: bool
) -> None:
    leader = cluster.leader()
    term = cluster.seen(leader).term
    follower = cluster.others(leader)[0]
    cluster.fabric.isolate(follower, hears=hears, speaks=speaks)
    if not hears:
        cluster.until(lambda: cluster.seen(follower).leader != leader, "silence")
    cluster.acknowledged(leader, _entries("meanwhile", 300))
    cluster.fabric.heal()
    cluster.agree()
    assert cluster.seen(leader).role == "leader"
    assert cluster.seen(leader).term == term


def test_link_cut_between_leader_and_one_follower_deposes_nobody(cluster: FabricCluster) -> None:
    leader = cluster.leader()
    term = cluster.seen(leader).term
    follower, other = cluster.others(leader)
    cluster.fabric.cut(leader, follower)
    cluster.until(lambda: cluster.seen(follower).leader != leader, "silence")
    cluster.acknowledged(leader, _entries("meanwhile", 300))
    assert cluster.seen(other).leader == leader
    cluster.fabric.heal()
    cluster.agree()
    assert (cluster.seen(leader).role, cluster.seen(leader).term) == ("leader", term)


def test_all_cut_from_all_lead_nobody_until_they_meet_again(cluster: FabricCluster) -> None:
    term = cluster.seen(cluster.leader()).term
    cluster.fabric.split(*[[node] for node in NODES])
    cluster.until(lambda: all(_is_deposed(cluster, node) for node in NODES), "end of leading")
    refused = [result for node in NODES for result in cluster.append(node, [b"x"])]
    assert all(result.error.definite for result in refused), refused
    # Whoever cannot win does not raise its term, so that nobody is deposed by it later.
    assert {cluster.seen(node).term for node in NODES} <= {term, term + 1}
    cluster.fabric.heal()
    cluster.acknowledged(cluster.leader(), [b"after"])
    cluster.agree()


def test_lossy_links_lose_nothing(cluster: FabricCluster) -> None:
    for a, b in (("n1", "n2"), ("n2", "n3"), ("n1", "n3")):
        cluster.fabric.lossy(a, b, loss=0.03, duplicate=0.03)
        cluster.fabric.slow(a, b, delay_s=0.002, jitter_s=0.004)
    acknowledged = 0
    for turn in range(20):
        results = cluster.append(cluster.leader(), _entries(f"turn {turn}", 50))
        acknowledged += sum(result.WhichOneof("outcome") == "index" for result in results)
    assert sum(cluster.fabric.counts(a, b).lost for a in NODES for b in NODES if a != b) > 0
    cluster.fabric.heal()
    cluster.agree()
    assert acknowledged > 0
    assert cluster.seen(cluster.leader()).applied >= acknowledged


def test_slow_link_full_of_entries_carries_heartbeats(cluster: FabricCluster) -> None:
    leader = cluster.leader()
    term = cluster.seen(leader).term
    # All of it is under way at once, more than two seconds of each link.
    for follower in cluster.others(leader):
        cluster.fabric.slow(
            leader, follower, bytes_per_s=2_000_000, queue_bytes=64 << 10, one_way=True
        )
    cluster.acknowledged(leader, _entries("large", 100, size=48 << 10))
    cluster.agree()
    assert (cluster.seen(leader).role, cluster.seen(leader).term) == ("leader", term)
