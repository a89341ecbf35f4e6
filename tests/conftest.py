"""What holds for every test: a skip always says why, and is a failure where CI=true.

And who runs beside whom: tests of real processes, sockets and networks measure time, or need all
processors, so they are marked `serial`; the others may share out the processors among them
(`pytest -n auto -m "not serial"`).

A green run must never mean "skipped": a machine that serves as CI has all that the tests need
(ci/apt.txt), so a skip there is a defect of the machine or of the test. Elsewhere skips are
listed with their reasons and do no harm.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

SKIPS = pytest.StashKey[list[tuple[str, str]]]()
SERIAL = ("e2e", "fabric", "network")
"""The folders of such tests."""
IN_CI = os.environ.get("CI") == "true"


class _SkipRecorder:
    """Collects the reason of every skip, of modules and of tests."""

    def __init__(self, skips: list[tuple[str, str]]) -> None:
        self._skips = skips

    def _record(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        # An expected failure is reported as a skip too, but it did run.
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self._skips.append((report.nodeid, str(reason).removeprefix("Skipped: ")))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._record(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._record(report)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite`."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the scenarios' traces as they are now, and golden files that are not there yet",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start recording skips."""
    config.stash[SKIPS] = []
    config.pluginmanager.register(_SkipRecorder(config.stash[SKIPS]))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave their folders unread where all of them would be left out afterwards."""
    if config.getoption("markexpr") != "not serial":
        return None
    is_theirs = collection_path.parent == Path(__file__).parent and collection_path.name in SERIAL
    return True if is_theirs else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs one by one, before `-m` chooses."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in SERIAL:
            item.add_marker("serial")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the run where CI=true and something was skipped."""
    if IN_CI and session.config.stash[SKIPS] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each skip that failed the run, and what to do."""
    skips = terminalreporter.config.stash[SKIPS]
    if IN_CI and skips:
        terminalreporter.section("skipped tests, which are failures where CI=true", red=True)
        for test, reason in skips:
            terminalreporter.line(f"{test}: {reason}", red=True)
        terminalreporter.line("Install what is missing (ci/apt.txt; root), or run without CI=true.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Let each test leave signals as they were: a command that waits for some has them blocked.

    Else whatever a later test of the same process starts would not hear of Ctrl-C.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        return (yield)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
