"""An executor that holds batches and begins none loses them; one that is merely slow does not."""

from __future__ import annotations

from coordinator.core.outlook import Outlook
from coordinator.core.unbegun import UNBEGUN_MS, Unbegun
from coordinator.core.watch import Holding, Watch
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Model
from tests.unit.core.leading import assigned, started

M = ("m", "1")
N = ("n", "1")
TIMEOUT_MS = 5000
LIMIT_MS = TIMEOUT_MS + UNBEGUN_MS
BEAT_MS = 1000


class Scene:
    """A leader, executors, and the heartbeats of the one that is called a hog.

    Attributes:
        leading: the leader.
        unbegun: what is tested.
        begun: batches that the hog says it runs, as keys.
    """

    def __init__(self, *executors: str, slots: int = 8, timeout_ms: int = TIMEOUT_MS) -> None:
        models = [
            Model(
                name,
                "1",
                max_batch_size=1,
                execution_timeout_microseconds=timeout_ms * 1000,
                assigned_max=3,
            )
            for name in "mn"
        ]
        self.leading = started(*map(r.PutModel, models), executors=executors, slots=slots)
        self.unbegun = Unbegun()
        self.begun: dict[int, None] = {}
        self.tailed_index = 1 << 40
        self.is_told = True
        self.rebuild()

    def rebuild(self) -> None:
        """Begin with another outlook, as a leader does whose own is stale."""
        leading = self.leading
        assert leading.decider is not None
        outlook = leading.outlook = Outlook(leading.state, self.unbegun.barred)
        for _ in outlook.build():
            pass
        leading.decider = type(leading.decider)(outlook)
        self.watch = Watch(outlook, self.unbegun)

    def give(self, *ids: str, model: str = "m") -> None:
        """Admit requests, each a batch of its own."""
        self.leading.propose(self.leading.admit(*ids, key=(model, "1", "a")))
        self.leading.apply()

    def at(self, executor: str) -> list[int]:
        """Return what an executor has, by the log."""
        found = self.leading.state.executors[executor].held
        return [each.batch for each in found if not each.is_lapsed]

    def beat(self, executor: str = "hog", after_ms: int = BEAT_MS) -> list[r.Record]:
        """Let an executor be heard, list all it has, and what follows be done; return it."""
        leading = self.leading
        leading.at_ms += after_ms
        live = leading.state.executors[executor]
        holdings = [Holding(*each[:2], each.batch in self.begun) for each in live.held]
        holdings = holdings if self.is_told else []
        tailed = self.tailed_index if self.is_told else 0
        at_ms = leading.at_ms
        records = self.watch.heard(executor, live.incarnation, tailed, holdings, at_ms)
        for each in (records, ()):  # what was taken back is placed anew once that has landed
            leading.propose(*each)
            leading.apply()
        return records

    def wait(self, for_ms: int, executor: str = "hog") -> list[r.Record]:
        """Let an executor be heard again and again for so long; return what followed."""
        return [each for _ in range(for_ms // BEAT_MS) for each in self.beat(executor)]


def test_executor_that_never_begins_loses_what_it_holds_to_another() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b", "c", "d")
    held = scene.at("hog")
    assert len(held) == 2
    state = scene.leading.state
    fences = {batch: state.batches[batch].fence for batch in held}
    assert scene.beat() == []
    assert scene.wait(LIMIT_MS - BEAT_MS) == []
    said = f"hog ran none of its batches for {LIMIT_MS // 1000} seconds"
    timed_out, unknown = LapseReason.TIMED_OUT, Ran.UNKNOWN
    assert scene.beat() == [
        r.Lapse(each, 1, fences[each], timed_out, unknown, False, "not_begun", said)
        for each in held
    ]
    for batch in held:
        assert state.batches[batch].executor == "able"
        assert (state.batches[batch].failed, state.batches[batch].excluded) == (0, ())
    assert set(held) <= set(scene.at("able"))
    assert scene.beat() == []


def test_batch_that_the_executor_was_never_told_of_is_taken_back_too() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    scene.is_told = False
    assert scene.beat() == []
    assert [type(each) for each in scene.wait(LIMIT_MS)] == [r.Lapse]


def test_what_never_begins_is_left_where_nobody_else_could_run_it() -> None:
    scene = Scene("hog")
    scene.give("a", "b")
    assert scene.wait(3 * LIMIT_MS) == []
    scene.leading.propose(r.Join("late", 0, 4, (M, N), b""))
    scene.leading.apply()
    assert [type(each) for each in scene.beat()] == [r.Lapse, r.Lapse]
    assert len(scene.at("late")) == 2


def test_executor_with_a_queue_before_a_slow_model_loses_nothing() -> None:
    scene = Scene("able", "hog", slots=20)
    scene.give(*[f"r{n}" for n in range(20)])
    while held := scene.at("hog"):
        scene.begun = {held[0]: None}
        # Each runs for as long as it may, but for a moment: the last has waited for ten times that.
        assert scene.wait(TIMEOUT_MS - BEAT_MS) == []
        scene.begun = {}
        scene.leading.propose(scene.leading.complete(held[0]))
        scene.leading.apply()


def test_batches_behind_one_that_runs_for_hours_are_left_alone() -> None:
    scene = Scene("able", "hog", timeout_ms=0)
    scene.give("a", "b", "c", "d")
    first, second = scene.at("hog")
    scene.begun = {first: None}
    assert scene.wait(3_600_000) == []
    scene.begun = {}
    assert scene.wait(UNBEGUN_MS - BEAT_MS) == []
    assert [type(each) for each in scene.wait(2 * BEAT_MS)] == [r.Lapse, r.Lapse]
    assert {first, second} <= set(scene.at("able"))


def test_executor_whose_batches_are_too_short_to_be_seen_running_loses_nothing() -> None:
    scene = Scene("able", "hog", slots=20)
    scene.give(*[f"r{n}" for n in range(20)])
    while held := scene.at("hog"):
        assert scene.wait(LIMIT_MS - BEAT_MS) == []
        scene.leading.propose(scene.leading.complete(held[0]))
        scene.leading.apply()


def test_time_in_which_the_leader_heard_nothing_hardly_counts() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    scene.beat()
    for _ in range(10):
        assert scene.beat(after_ms=600_000) == []


def test_other_versions_that_run_there_are_no_excuse_and_lose_nothing() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    scene.give("c", "d", model="n")
    mine = [each for each in scene.at("hog") if scene.leading.state.batches[each].key[0] == "m"]
    scene.begun = {each: None for each in scene.at("hog") if each not in mine}
    assert scene.begun
    lapsed = [each.batch for each in scene.wait(LIMIT_MS + BEAT_MS) if isinstance(each, r.Lapse)]
    assert lapsed == mine
    # Of the other version it still gets something, and of this one nothing.
    scene.leading.propose(*[scene.leading.complete(each) for each in scene.at("able")])
    scene.leading.apply()
    scene.give("e", "f", "g")
    assert scene.leading.state.batches[scene.at("able")[0]].key[0] == "m"
    keys = {scene.leading.state.batches[each].key[0] for each in scene.at("hog")}
    assert keys == {"n"}


def test_barred_executor_gets_nothing_for_as_long_again_and_then_for_twice_as_long() -> None:
    scene = Scene("able", "hog", slots=50)
    for times in (1, 2, 4, 8, 8):
        scene.give(f"a{scene.leading.at_ms}", f"b{scene.leading.at_ms}")
        assert len(scene.at("hog")) == 1
        scene.wait(LIMIT_MS + BEAT_MS)
        assert scene.at("hog") == []
        for _ in range(times * LIMIT_MS // BEAT_MS - 1):
            assert scene.beat() == []
            scene.rebuild()
        for batch in scene.at("able"):
            scene.leading.propose(scene.leading.complete(batch))
            scene.leading.apply()
        scene.give(f"x{scene.leading.at_ms}", f"y{scene.leading.at_ms}")
        assert scene.at("hog") == []
        for batch in scene.at("able"):
            scene.leading.propose(scene.leading.complete(batch))
            scene.leading.apply()
        scene.beat()
        assert scene.unbegun.barred == {}


def test_bar_is_lifted_where_nobody_else_is_left() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    scene.wait(LIMIT_MS + BEAT_MS)
    assert scene.at("hog") == []
    incarnation = scene.leading.state.executors["able"].incarnation
    scene.leading.propose(r.Leave("able", incarnation, True, ()))
    scene.leading.apply()
    assert scene.at("hog") == []
    scene.beat()
    assert len(scene.at("hog")) == 2


def test_new_life_of_an_executor_has_its_own_time() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    scene.wait(LIMIT_MS)
    before = scene.leading.state.executors["hog"].incarnation
    scene.leading.propose(r.Join("hog", before, 4, (M, N), b""))
    scene.leading.apply()
    scene.give("c", "d", "e")
    assert scene.at("hog")
    assert scene.wait(LIMIT_MS) == []


def test_what_is_in_flight_is_not_taken_back_twice() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    scene.wait(LIMIT_MS)
    leading = scene.leading
    [batch] = scene.at("hog")
    leading.propose(leading.complete(batch))
    live = leading.state.executors["hog"]
    holdings = [Holding(*each[:2], False) for each in live.held]
    at_ms = leading.at_ms + BEAT_MS
    assert scene.watch.heard("hog", live.incarnation, 1 << 40, holdings, at_ms) == []


def test_executors_that_are_no_more_are_forgotten() -> None:
    scene = Scene("able", "hog")
    for n in range(400):
        name = f"hog-{n}"
        scene.leading.propose(r.Join(name, 0, 4, (M, N), b""))
        scene.leading.apply()
        scene.unbegun.barred[name, M] = 1 << 50
        scene.unbegun._times[name, M] = 1
        scene.beat(name)
        incarnation = scene.leading.state.executors[name].incarnation
        scene.leading.propose(r.Leave(name, incarnation, True, ()))
        scene.leading.apply()
    assert len(scene.unbegun._heard) < 100
    assert len(scene.unbegun._times) < 100
    assert len(scene.unbegun.barred) < 100


def test_batch_goes_elsewhere_before_it_has_been_assigned_too_often() -> None:
    scene = Scene("able", "hog")
    scene.give("a", "b")
    [batch] = scene.at("hog")
    records = scene.wait(LIMIT_MS + 10 * BEAT_MS)
    assert len(records) == 1
    assert assigned(scene.leading.trace).count((batch, "hog")) == 1
    assert assigned(scene.leading.trace)[-1] == (batch, "able")
