"""`python -m chaos`: run the product under faults, and show that the checkers find bugs.

What lives here: the command line. What must never live here: an import of the
product at the top: a mutant has to be in place before it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.mutants import MUTANTS
from chaos.mutation import Mutant, install
from chaos.runner import CORES, SUITES, Verdict, digest_of, parse_seeds, run_seeds, summary
from chaos.worlds import groups, mounts, namespaces, owners
from chaos.worlds.points import missed, without_points

if TYPE_CHECKING:
    from chaos.real import Asked

_SEARCHED_SEEDS = range(500)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Run the product under faults, and show that the checkers find bugs.",
)

SuiteOption = Annotated[str, typer.Option(help=f"One of: {', '.join(SUITES)}.")]
SeedsOption = Annotated[str, typer.Option(help="A..B, both included, or one seed.")]


@app.command()
def sim(
    suite: SuiteOption = "journal",
    seeds: SeedsOption = "0..299",
    processes: Annotated[int, typer.Option(help="0: one a core.")] = 0,
    core: Annotated[
        str, typer.Option(help="Of suite raft: `hardened`, or `stock` pysyncobj.")
    ] = "hardened",
    digest: Annotated[
        bool, typer.Option("--digest", help="Of each seed that passes, digest the whole trace.")
    ] = False,
) -> None:
    """Run seeds in the simulated world. Exit code 1 if a promise broke."""
    if core not in CORES:
        raise typer.BadParameter(f"there is no core {core!r}, only {', '.join(CORES)}")
    suite += CORES[core]
    chosen = _checked(suite, seeds)
    print(f"seeds {seeds} of suite {suite}")
    if len(chosen) == 1:
        processes = 1
    verdicts = list(_told(suite, run_seeds(suite, chosen, processes or os.cpu_count() or 1)))
    for verdict in verdicts if digest else ():
        if not verdict.violation:
            print(f"trace of seed {verdict.seed}: {_digest(suite, verdict.seed)}")
    _end(summary(verdicts))


@app.command()
def mutant(
    name: Annotated[str, typer.Argument(help="See `python -m chaos mutants --list`.")],
    seeds: Annotated[str, typer.Option(help="Seeds to try in place of the recorded killer.")] = "",
) -> None:
    """Put one known bug back and replay what finds it. Exit code 1 if it is found."""
    suite, found = _find(name)
    print(f"mutant {name}: {found.module}")
    install(found)
    if seeds or isinstance(found.killer, int):
        chosen = _checked(suite, seeds or str(found.killer))
        verdicts = []
        for verdict in run_seeds(suite, chosen, 1):
            verdicts.append(verdict)
            if verdict.violation:
                print(f"seed {verdict.seed}: {verdict.violation.splitlines()[-1]}")
                break
        _end(summary(verdicts))
    import pytest  # only where a test is the killer: it is not installed with the product

    code = pytest.main(
        [
            str(found.killer),
            "-q",
            "-x",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
        ]
    )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise typer.Exit(2)
    _end({"seeds": 0, "violations": int(code == pytest.ExitCode.TESTS_FAILED)})


@app.command()
def mutants(
    suite: SuiteOption = "journal",
    show: Annotated[bool, typer.Option("--list", help="Only list them.")] = False,
) -> None:
    """Search anew for the first seed that finds each mutant. Exit code 1 if one survives."""
    survivors = []
    for each in MUTANTS.get(suite, []):
        if show:
            print(f"{each.name:32} {each.killer}")
            continue
        arguments = [sys.executable, "-m", "chaos", "mutant", each.name]
        if isinstance(each.killer, int):
            arguments += ["--seeds", f"{_SEARCHED_SEEDS.start}..{_SEARCHED_SEEDS.stop - 1}"]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        print(
            f"{each.name:32} {lines[1][:150] if len(lines) > 2 else done.stderr[-300:]}", flush=True
        )
        if done.returncode != 1:
            survivors.append(each.name)
    print(json.dumps({"mutants": len(MUTANTS.get(suite, [])), "survivors": survivors}))
    raise typer.Exit(1 if survivors else 0)


@app.command()
def run(
    workload: Annotated[str, typer.Option(help="What clients do: see `python -m chaos list`.")],
    nemesis: Annotated[str, typer.Option(help="What goes wrong: names, by commas.")] = "",
    time: Annotated[float, typer.Option(help="Seconds of faults.")] = 60.0,
    seed: Annotated[int, typer.Option(help="0: one is drawn.")] = 0,
    width: Annotated[int, typer.Option(help="Requests under way at one time.")] = 16,
    config: Annotated[Path | None, typer.Option(help="Of the cluster.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of results.")] = None,
    disks: Annotated[str, typer.Option(help="none, loop or tmpfs; empty: as is needed.")] = "",
    broken: Annotated[str, typer.Option(help="A known bug: see `python -m chaos list`.")] = "",
) -> None:
    """Run real processes under faults. Exit code 1 if a promise broke, 2 if nothing could run."""
    seed = seed or random.SystemRandom().randrange(1, 1 << 31)
    print(f"seed {seed}", flush=True)
    from chaos import real  # it imports the product

    asked = real.Asked(
        workload,
        tuple(each.strip() for each in nemesis.split(",") if each.strip()),
        time,
        seed,
        config or real.CONFIG,
        out,
        width,
        disks,
        program=("chaos.broken", broken) if broken else (),
    )
    if wrong := asked.check():
        raise typer.BadParameter(wrong)
    print(asked.again(), flush=True)
    _run_real(asked)


def _run_real(asked: Asked) -> None:
    from chaos import real
    from raftbatch.errors import CannotStart

    try:
        verdict = real.run(asked, partial(print, flush=True))
    except (CannotStart, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    for finding in verdict.findings:
        print(f"\n{finding}")
    if verdict.findings:
        print(f"\nagain: {asked.again()}")
    print(f"all of it is in {asked.results()}: begin with README.md and timeline.html")
    told: dict[str, object] = {
        "seed": asked.seed,
        "violations": len(verdict.findings),
        "rules": sorted({each.rule for each in verdict.findings}),
        "faults": verdict.counts["faults"],
        **verdict.figures,
    }
    print(json.dumps(told))
    raise typer.Exit(1 if verdict.findings else 0)


@app.command()
def selection(
    time: Annotated[float, typer.Option(help="Seconds of faults in each run; 0: 18.")] = 0.0,
    keep: Annotated[
        bool, typer.Option(help="Keep the results of runs that found nothing, too.")
    ] = True,
) -> None:
    """Run the selection of `make chaos` over real processes. Exit code 1 if a promise broke."""
    from chaos import selection as chosen

    say = partial(print, flush=True)
    _end(dict(chosen.run_all(time or chosen.TIME_S, say, keeps=keep)))


@app.command()
def swarm(
    seeds: SeedsOption = "1..100",
    time: Annotated[float, typer.Option(help="Seconds of faults in each run; 0: 15.")] = 0.0,
) -> None:
    """Run real processes, each seed with a workload and nemeses of its own, until one finds a bug.

    Exit code 1 if one did; its folder is kept.
    """
    from chaos import swarm as many

    try:
        chosen = parse_seeds(seeds)
    except ValueError as error:
        raise typer.BadParameter(f"seeds: {error}") from None
    _end(dict(many.run_all(chosen, time or many.TIME_S, partial(print, flush=True))))


@app.command("list")
def list_all() -> None:
    """Name all suites, workloads, nemeses and broken products."""
    from chaos import real
    from chaos.broken import BROKEN

    for suite in SUITES:
        print(f"suite     {suite}")
    for kind, name, description in real.listed():
        print(f"{kind:9} {name:18} {description}")
    for each in BROKEN.values():
        print(f"broken    {each.name:18} {each.description}")


@app.command()
def clean() -> None:
    """Remove what a harness that was killed has left on this machine. Needs root."""
    if missing := namespaces.missing():
        print(f"nothing can have been left here, or be removed: {missing}")
        return
    removed = namespaces.clean()
    for namespace in removed:
        print(f"removed {namespace}, and what ran in it")
    for namespace in namespaces.ours():
        print(f"left {namespace}: who made it is alive")
    ended = owners.clean()
    for owner in sorted(set(ended)):
        print(f"ended {ended.count(owner)} processes of {owner}")
    for what in (gone := [*mounts.clean(), *groups.clean()]):
        print(f"removed {what}")
    print(json.dumps({"removed": len(removed) + len(gone), "ended": len(ended)}))


def _find(name: str) -> tuple[str, Mutant]:
    for suite, known in MUTANTS.items():
        for each in known:
            if each.name == name:
                return suite, each
    raise typer.BadParameter(f"there is no mutant {name!r}: see `python -m chaos mutants --list`")


def _checked(suite: str, seeds: str) -> range:
    if suite not in SUITES:
        raise typer.BadParameter(f"there is no suite {suite!r}, only {', '.join(SUITES)}")
    try:
        return parse_seeds(seeds)
    except ValueError as error:
        raise typer.BadParameter(f"seeds: {error}") from None


def _digest(suite: str, seed: int) -> str:
    try:
        return digest_of(suite, seed)
    except ValueError as error:
        raise typer.BadParameter(f"--digest: {error}") from None


def _told(suite: str, verdicts: Iterable[Verdict]) -> Iterable[Verdict]:
    """Pass verdicts on, telling of each violation how to see it again."""
    for verdict in verdicts:
        if verdict.violation:
            print(f"\nseed {verdict.seed}:\n{verdict.violation}")
            print(f"again: python -m chaos sim --suite {suite} --seeds {verdict.seed}", flush=True)
        yield verdict


def _end(counts: dict[str, int]) -> None:
    told = without_points(counts)
    if "points" in told and (never := missed(counts)):
        print(f"crash points that nobody died at: {', '.join(never)}")
    print(json.dumps(told))
    raise typer.Exit(1 if counts["violations"] else 0)


if __name__ == "__main__":
    app()
