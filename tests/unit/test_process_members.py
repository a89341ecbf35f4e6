"""What real runs hold against memberships and emptied disks, shown to fire at logs made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.checkers.process_members import memberships
from chaos.checkers.process_values import End, Evidence, LogEntry, NodeLog
from chaos.gathering import former_logs
from chaos.history import History
from chaos.worlds.changing import Former
from chaos.worlds.files import Files, spares
from coordinator.raft.membership import Membership, Rank, encode, founders
from raftbatch.config import parse
from raftbatch.ids import NodeId
from raftbatch.local import configuration
from raftbatch.realworld import RealWorld
from tests.tidy.tree import ROOT

N1, N2, N3, N4 = (NodeId(f"n{number}") for number in range(1, 5))
THREE = founders({node: f"{node}:1" for node in (N1, N2, N3)})
JOINING = THREE.added(N4, "n4:1", Rank.JOINING)
FOUR = JOINING.promoted(N4)
WIPED = FOUR.added(N2, "n2:1", Rank.JOINING)


def rules(found: Sequence[Membership], *nodes: str, committed: int = 9) -> set[str]:
    """Return what is found in these memberships, each an entry."""
    entries = {at: LogEntry(1, encode(each), True) for at, each in enumerate(found, 1)}
    evidence = Evidence([], {"n1": NodeLog(1, entries)}, {"n1": End(committed, committed)})
    return {each.rule for each in memberships(evidence, nodes)}


def test_changes_one_by_one_are_sound() -> None:
    found = [THREE, JOINING, FOUR, WIPED, WIPED.promoted(N2), FOUR.removed(N2)]
    assert rules(found, "n1", "n3", "n4") == set()


def test_two_voters_at_once_are_found() -> None:
    assert rules([FOUR, THREE.removed(N3)]) == {"two-changes"}


@pytest.mark.parametrize("before", [THREE, WIPED.removed(N2), THREE.removed(N1)])
def test_life_that_votes_at_once_is_found(before: Membership) -> None:
    after = before.added(N4, "n4:1", Rank.JOINING).promoted(N4)
    assert "voted-at-once" in rules([before, after])


def test_life_that_comes_again_is_found() -> None:
    gone = FOUR.removed(N4)
    again = Membership((*gone.members, FOUR.members[-1]))
    assert rules([FOUR, gone, again]) == {"voted-at-once", "life-again"}


def test_member_that_nobody_added_is_found() -> None:
    assert rules([THREE, JOINING], "n1", "n2", "n3") == {"wrong-members"}
    assert rules([THREE, JOINING, FOUR, FOUR.removed(N4)], "n1", "n2", "n3", "n4") == {
        "wrong-members"
    }


def test_change_that_is_not_committed_is_no_matter() -> None:
    assert rules([THREE, JOINING], "n1", "n2", "n3", committed=1) == set()


def test_emptied_directory_tells_what_its_node_said_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History()
    for commit in (3, 5):
        history.note("look", leader="n1", nodes={"n2": {"commit": commit}})
    history.note("operator", what="forget", name="n2", kept="n2-1")
    history.note("look", leader="n1", nodes={"n2": {"commit": 7}})
    whole = {at: LogEntry(1, b"") for at in range(1, 9)}
    monkeypatch.setattr("chaos.gathering.read_log", lambda *_: NodeLog(1, dict(whole)))
    former = [Former("n2", tmp_path / "n2-1"), Former("n3", tmp_path / "n3-2")]
    world = cast("Any", SimpleNamespace(former=former))
    found = former_logs(RealWorld(), world, history.events)
    assert {name: list(log.entries) for name, log in found.items()} == {
        "n2-1": [1, 2, 3, 4, 5],
        "n3-2": [],
    }


def test_node_that_joins_has_a_file_of_its_own(tmp_path: Path) -> None:
    config = ROOT / "cluster_configs" / "chaos-3.toml"
    values = parse(config.read_text("utf-8"), str(config))
    given = configuration.addresses_of(values, str(config))
    more = spares(given, 2)
    assert list(more) == ["n4", "n5"]
    placed = {
        node: {key: f"127.0.0.1:{9000 + 10 * place + place2}" for place2, key in enumerate(keys)}
        for place, (node, keys) in enumerate((given | more).items())
    }
    files = Files(tmp_path, config, values, placed, tuple(given))
    assert files.peer("n5") == "127.0.0.1:9040"

    def named(arguments: list[str]) -> list[str]:
        path = arguments[arguments.index("--config") + 1]
        return list(configuration.addresses_of(parse(Path(path).read_text(), ""), ""))

    assert named(files.node("n2")) == ["n1", "n2", "n3"]
    assert named(files.node("n5")) == ["n1", "n2", "n3", "n5"]
    assert files.node("n5")[-1] == "--bootstrap"
    assert "--join" in files.node("n5", ("--join",))
    assert files.node("n5", ())[-1].endswith(".toml")
