"""The swarm of real runs: what a seed draws, and that the first finding ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from chaos.checkers.process_values import Finding
from chaos.nemeses import NEMESES
from chaos.real import Asked
from chaos.running import Verdict
from chaos.swarm import drawn, run_all
from chaos.workloads import WORKLOADS
from raftbatch.errors import CannotStart

ALL = ("network", "disk", "power", "preload", "memory")
FIGURES = {"outcomes": 7.0, "heal_s": 1.0, "alive_s": 0.1, "entries": 9, "terms": 2}


def test_seed_draws_the_same_run_always_and_seeds_draw_all_there_is() -> None:
    runs = [drawn(seed, 15.0, ALL) for seed in range(300)]
    assert runs == [drawn(seed, 15.0, ALL) for seed in range(300)]
    assert {each.workload for each in runs} == set(WORKLOADS)
    assert {name for each in runs for name in each.nemeses} == set(NEMESES)
    assert all(len(set(each.nemeses)) == len(each.nemeses) > 0 for each in runs)


def test_what_a_machine_cannot_do_is_not_drawn() -> None:
    for seed in range(100):
        assert drawn(seed, 15.0, ()).needs() == frozenset()
        assert drawn(seed, 15.0, ("disk",)).needs() <= {"disk"}


def _playing(wrong: dict[int, Exception | Finding]) -> Callable[..., Verdict]:
    def play(asked: Asked, say: Callable[[str], None]) -> Verdict:
        asked.results().mkdir(parents=True)
        say(f"how {asked.seed} went")
        match wrong.get(asked.seed):
            case Finding() as finding:
                return Verdict([finding], Counter(faults=2), FIGURES)
            case Exception() as error:
                raise error
        return Verdict([], Counter(faults=2), FIGURES)

    return play


def test_first_finding_ends_it_and_its_folder_stays(tmp_path: Path) -> None:
    said: list[str] = []
    play = _playing({3: Finding("lost-ticket", "r1 is lost")})
    counts = run_all(range(1, 9), 1.0, said.append, play, tmp_path)
    assert counts == Counter(runs=3, faults=6, outcomes=21, violations=1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["3", "table.md"]
    assert "how 3 went" in said
    assert "how 2 went" not in said
    assert any("lost-ticket: r1 is lost" in line for line in said)
    again = [line for line in said if line.startswith("\nagain: ")]
    assert len(again) == 1
    assert "--time 1 --seed 3" in again[0]
    table = (tmp_path / "table.md").read_text("utf-8").splitlines()
    assert [line.split()[1] for line in table[2:]] == ["1", "2", "3"]
    run_all([9], 1.0, said.append, play, tmp_path)
    assert (tmp_path / "table.md").read_text("utf-8").count("| seed |") == 1


def test_run_that_cannot_be_is_no_success(tmp_path: Path) -> None:
    said: list[str] = []
    play = _playing({1: CannotStart("no cluster")})
    counts = run_all(range(1, 9), 1.0, said.append, play, tmp_path)
    assert (counts["runs"], counts["violations"]) == (0, 1)
    assert "it could not run: no cluster" in said
