"""Networks that break at drawn moments in drawn ways, under clients: nothing is lost or made up.

Source: docs/GUARANTEES.md, G7.
"""

import threading
from pathlib import Path
from random import Random

import pytest

from tests.e2e.clients import Clients
from tests.e2e.cluster import AS_SHIPPED
from tests.e2e.history import History, judge, log_of
from tests.fabric.cluster import NODES, FabricCluster, serving
from tests.fabric.nodes import needs_namespaces

FAULTS = 20
CLIENTS = 3
_LASTS_S = (0.3, 1.6)  # some end before anybody is elected, some after
_ANSWER_S = 2.0  # then a client gives up, and does not know
_PAIRS = [(a, b) for a in NODES for b in NODES if a != b]


def _break(cluster: FabricCluster, rng: Random) -> str:
    """Do something to the network; return what."""
    fabric = cluster.fabric
    a, b = rng.choice(_PAIRS)
    leaders = [node for node, each in cluster.statuses().items() if each.role == "leader"]
    victim = rng.choice(leaders) if leaders and rng.random() < 0.6 else a
    match rng.randrange(6):
        case 0:
            fabric.isolate(victim)
            return f"isolate {victim}"
        case 1:
            hears = rng.random() < 0.5
            fabric.isolate(victim, hears=hears, speaks=not hears)
            return f"isolate {victim}, which {'hears' if hears else 'speaks'}"
        case 2:
            one_way = rng.random() < 0.5
            fabric.cut(a, b, one_way=one_way)
            return f"cut {a} {b} {'one way' if one_way else ''}"
        case 3:
            for one, other in _PAIRS:
                fabric.lossy(one, other, loss=0.1, duplicate=0.1, one_way=True)
            return "lossy"
        case 4:
            for other in cluster.others(victim):
                fabric.slow(victim, other, delay_s=rng.choice((0.005, 0.05, 0.3)), jitter_s=0.02)
            return f"slow {victim}"
        case _:
            fabric.split(*[[node] for node in NODES])
            return "split all"


@pytest.mark.parametrize("seed", [1])
@pytest.mark.slow
@needs_namespaces[0]
@needs_namespaces[1]
def test_drawn_faults_lose_nothing_and_make_nothing_up(tmp_path: Path, seed: int) -> None:
    rng, history = Random(seed), History()
    with serving(tmp_path, AS_SHIPPED, seed) as cluster:
        with Clients(cluster.clients, history, CLIENTS, seed, _ANSWER_S):
            never = threading.Event()
            done = []
            for _ in range(FAULTS):
                done.append(_break(cluster, rng))
                never.wait(rng.uniform(*_LASTS_S))
                if rng.random() < 0.7:
                    cluster.fabric.heal()
                    never.wait(rng.uniform(0.0, 0.6))
            cluster.fabric.heal()
            before = history.count("ok")
            cluster.until(lambda: history.count("ok") > before, "progress after healing")
        cluster.agree()
        # Ending them one by one lets others lead, whose first entries come on top.
        applied = min(cluster.seen(node).applied for node in NODES)
        for process in cluster.processes.values():
            process.terminate()
        logs = {node: log_of(cluster.data(node)) for node in NODES}
    complaints = list(judge(history, logs, applied))
    assert not complaints, "\n".join([*done, *complaints[:20]])
    assert history.count("ok") > 100
    assert history.count("fail") + history.count("info") > 0, done
