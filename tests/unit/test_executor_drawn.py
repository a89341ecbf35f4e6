"""Whatever is lost, dies or is late: an executor agrees with its feed, and each request ends."""

from __future__ import annotations

from collections import Counter

from tests.unit.executor_scene import Scene


def test_executor_agrees_with_its_feed_and_each_request_ends() -> None:
    counts: Counter[str] = Counter()
    for seed in range(16):
        counts += Scene(seed).play(400)
    for what in (
        "more",
        "message",
        "killed",
        "lost",
        "probe",
        "overdue",
        "slow",
        "reported complete OK",
        "reported complete STALE_FENCE",
        "reported lapse OK",
        "reported free OK",
        "lapse TIMED_OUT",
        "lapse FAILED",
        "lapse REFUSED",
    ):
        assert counts[what] > 3, (what, counts)
