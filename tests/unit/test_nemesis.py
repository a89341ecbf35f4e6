"""The nemesis on a small cluster: every fault strikes, every fault ends, and a seed is a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from chaos import faults
from chaos.faults import Site
from chaos.nemesis import ACTIONS, Mix, Nemesis
from chaos.worlds.loop import VirtualLoop
from raftbatch.errors import Fatal
from tests.unit.sim_example import IDS, Cluster, digest, run

N1, N2, N3 = IDS
DEATHS = {
    "kill": ("killed", "power lost"),
    "kill_leader": ("killed", "power lost"),
    "kill_follower": ("killed", "power lost"),
    "kill_all": ("killed", "power lost"),
    "fail_sync": ("fatal: ", "killed"),  # killed: it refused to start
    "crash_at_operation": ("", ""),
    "crash_at_send": ("before a send", "after a send"),
    "rot": ("killed", "power lost"),
}


@pytest.mark.parametrize("name", [*ACTIONS, "rot"])
def test_fault_strikes_ends_and_leaves_a_working_cluster(name: str) -> None:
    mix = Mix({name: 1}, rate=6.0)
    cluster, nemesis = run(11, mix=mix, chaos_s=4.0)  # which checks that all is well in the end
    assert nemesis.counts[name] > 3
    died = [line.partition("died: ")[2] for line in cluster.happened if "died: " in line]
    allowed = DEATHS.get(name)
    assert bool(died) == bool(allowed)
    assert all(why.startswith(allowed or ()) for why in died), died


@pytest.mark.parametrize("seed", range(6))
def test_swarm_of_faults_ends_in_a_working_cluster(seed: int) -> None:
    run(seed)


def test_swarm_draws_every_fault_and_no_two_seeds_the_same() -> None:
    mixes = [Mix.draw(Random(seed), rotting=seed > 50, beyond=seed > 50) for seed in range(100)]
    drawn = Counter(name for mix in mixes for name in mix.weights)
    assert set(drawn) == {*ACTIONS, "rot"}
    assert all(drawn[name] < 90 for name in ACTIONS)
    assert len({str(mix) for mix in mixes}) == 100
    within = mixes[:50]
    assert all("rot" not in mix.weights for mix in within)
    assert all(
        (mix.links.stale, mix.links.loss, mix.links.duplicate, mix.links.reorder) == (0, 0, 0, 0)
        for mix in within
    )


def test_seed_is_one_identical_run_whatever_the_hash_seed_is() -> None:
    digests = []
    for hash_seed in ("0", "4242"):
        command = [sys.executable, "-m", "tests.unit.sim_example", "3", "6"]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(done.stdout.split())
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 2
    assert digests[0][0] == digest(run(3)[0]), "nor whatever ran before in the process"


def _site(cluster: Cluster) -> Site:
    return Site(cluster, Random(5), cluster.leader, power=0.0)


def test_nothing_strikes_after_heal() -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.start_all()
        nemesis = Nemesis(cluster, cluster.leader, Mix({"kill": 1}, rate=50.0), Random(1))
        nemesis.begin()
        loop.run_for(3.0)
        assert nemesis.counts["kill"] > 50
        nemesis.heal()
        loop.run_for(1.0)
        counts, deaths = nemesis.counts["kill"], str(cluster.happened).count("died")
        loop.run_for(20.0)
        assert (nemesis.counts["kill"], str(cluster.happened).count("died")) == (counts, deaths)


def test_paused_leader_hears_nothing_and_then_everything() -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.start_all()
        loop.run_for(2.0)
        cluster.pause(N1)
        cluster.happened.clear()
        loop.run_for(1.0)
        assert not any(f" {N1} " in line.partition(" hears ")[0] + " " for line in cluster.happened)
        cluster.resume(N1)
        loop.run_for(0.0)
        heard = [line for line in cluster.happened if f"{N1} hears tick" in line]
        assert len(heard) > 30


def test_full_disk_has_as_much_room_as_was_left_and_gets_it_back() -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.start_all()
        site = _site(cluster)
        before = [cluster.machines[node].disk.bytes_left for node in IDS]
        heal = faults.fill_disk(site)
        left = [cluster.machines[node].disk.bytes_left for node in IDS]
        assert sum(space < 1_000_000 for space in left) == 1
        heal()
        assert [cluster.machines[node].disk.bytes_left for node in IDS] == before


def test_rot_is_on_a_minority_and_mended_where_the_node_refused() -> None:
    refusals = 0
    for seed in range(12):
        with VirtualLoop() as loop:
            cluster = Cluster(loop, seed)
            cluster.start_all()
            loop.run_for(3.0)
            site = Site(cluster, Random(seed), cluster.leader, power=0.0)
            mend = faults.rot(site)
            assert mend is not None
            assert faults.rot(site) is None, "a minority of three is one"
            (node,) = site.rotten
            assert not cluster.is_up(node)
            if not cluster.start(node):
                refusals += 1
                assert isinstance(cluster.refused[node], Fatal)
                mend()
                assert cluster.start(node)
            assert node not in cluster.refused
    assert 2 < refusals < 12


def test_silent_machine_and_dead_process_look_different_to_peers() -> None:
    for power, is_noticed in ((False, True), (True, False)):
        with VirtualLoop() as loop:
            cluster = Cluster(loop, 1)
            cluster.start_all()
            loop.run_for(2.0)
            cluster.happened.clear()
            cluster.kill(N1, power)
            loop.run_for(0.3)
            assert any(f"{N2} -{N1}" in line for line in cluster.happened) == is_noticed
            loop.run_for(5.0)
            assert any(f"{N2} -{N1}" in line for line in cluster.happened)
