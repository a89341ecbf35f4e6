"""Many real runs: what a seed of the swarm draws, what ends it, and what stays of a selection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos import selection
from chaos.checkers.process_values import Finding
from chaos.nemeses import NEMESES
from chaos.real import Asked
from chaos.running import Verdict
from chaos.swarm import drawn, run_all
from chaos.workloads import WORKLOADS
from chaos.worlds import namespaces
from raftbatch.errors import CannotStart

ALL = ("network", "disk", "power", "preload", "memory")
FIGURES = {"outcomes": 7.0, "heal_s": 1.0, "alive_s": 0.1, "entries": 9, "terms": 2}


def test_seed_draws_the_same_run_always_and_seeds_draw_all_there_is() -> None:
    runs = [drawn(seed, 15.0, ALL) for seed in range(300)]
    assert runs == [drawn(seed, 15.0, ALL) for seed in range(300)]
    assert {each.workload for each in runs} == {n for n, each in WORKLOADS.items() if each.is_drawn}
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


def _selected(said: list[str], folder: Path, wrong: dict[int, Exception | Finding]) -> Counter[str]:
    return selection.run_all(1.0, said.append, keeps=False, play=_playing(wrong), results=folder)


def test_selection_goes_on_and_keeps_what_found_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "missing", str)
    said: list[str] = []
    seeds = [seed for _, _, seed in selection.SELECTION]
    wrong: dict[int, Exception | Finding] = {
        seeds[1]: Finding("lost-ticket", "r1 is lost"),
        seeds[2]: CannotStart("no cluster"),
    }
    counts = _selected(said, tmp_path, wrong)
    ended = len(seeds) - 1
    expected = Counter(runs=len(seeds), faults=2 * ended, outcomes=7 * ended, violations=2)
    assert counts == expected
    kept = sorted(int(each.name.rpartition("-")[2]) for each in (tmp_path / "selection").iterdir())
    assert kept == sorted(seeds[1:3])
    told = [line for line in said if line.startswith("== ")]
    assert len(told) == 2 * len(seeds)
    assert told[1].startswith("== 1 of 11: passed")
    assert f"FAILED, all of it is in {tmp_path}" in told[3]
    assert "it could not run: no cluster" in told[5]


@pytest.mark.parametrize("is_ci", [False, True])
def test_selection_says_what_cannot_be_done_here_and_ci_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ci: bool
) -> None:
    monkeypatch.setattr(namespaces, "missing", lambda: "needs root")
    monkeypatch.setenv("CI", "true" if is_ci else "")
    said: list[str] = []
    counts = _selected(said, tmp_path, {})
    assert counts["skipped"] > 0
    assert counts["violations"] == (counts["skipped"] if is_ci else 0)
    skipped = [line for line in said if ": skipped: " in line]
    assert len(skipped) == counts["skipped"]
    assert all(line.endswith("needs root") for line in skipped)
