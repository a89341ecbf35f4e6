"""The folder of a run: all that was seen and found, and a page that explains it.

    README.md        what is in it, the verdict, and the command that does the run again
    history.jsonl    every call of every client, every fault, every look at the cluster
    verdict.json     findings with their stories, counts, figures
    timeline.html    faults, leaders, throughput and latency on one axis
    cluster/         the configuration, every process's log, every node's data directory
    ran/             what executors ran

What lives here: writing it. What must never live here: a judgement. Called by: `chaos.real`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.history import Event
from chaos.running import Verdict
from chaos.timeline import page

HISTORY = "history.jsonl"
CLUSTER = "cluster"
RAN = "ran"

_PAGE = """# {title}

{verdict}

    {command}

does the run again: the same workload and the same plan of faults, drawn from the same seed.
Processes, disks and clocks of a real machine are not drawn: it is not the same to the letter.

- `timeline.html`: faults, leaders, throughput and latency on one axis; open it in a browser.
- `verdict.json`: all findings with their stories, what came of all calls, figures.
- `history.jsonl`: a row for each beginning and end of a client's call, each fault, each look at the
  cluster; times are monotonic, in nanoseconds. `fail` is definite, `info` means: nobody knows.
- `cluster/cluster.toml`: the configuration of all processes.
- `cluster/logs/`: what each process said.
- `cluster/disks/NODE/data`, or `cluster/kept/NODE`: each node's data directory, its journal in it.
  `raftbatch log dump DIRECTORY` lists it, `raftbatch request show ID --directory DIRECTORY` tells
  of a request.
- `ran/`: what each executor's processes ran, noted before they ran it.

## Phases

| phase | began after |
|---|---:|
{phases}

## Faults

{faults}

## What came of it

{counts}

## Findings

{findings}
"""


def write(
    folder: Path,
    events: Sequence[Event],
    verdict: Verdict,
    told: Mapping[str, Any],
    command: str,
) -> None:
    """Write verdict, timeline and page beside what is there already.

    Args:
        folder: of the run.
        events: its history.
        verdict: what came of it.
        told: what was run: workload, nemeses, seed, time.
        command: that does it again.
    """
    findings = [
        {
            "rule": each.rule,
            "what": each.what,
            "request": each.name[1] if each.name is not None else None,
            "story": each.story,
        }
        for each in verdict.findings
    ]
    found = {
        **told,
        "findings": findings,
        "counts": dict(sorted(verdict.counts.items())),
        "figures": verdict.figures,
        "command": command,
    }
    text = json.dumps(found, indent=2, ensure_ascii=False)
    (folder / "verdict.json").write_text(text + "\n", "utf-8")
    title = (
        f"{told['workload']} under {', '.join(told['nemeses']) or 'no fault'}, seed {told['seed']}"
    )
    (folder / "timeline.html").write_text(page(events, title, len(findings)), "utf-8")
    (folder / "README.md").write_text(_page(title, events, verdict, command), "utf-8")


def _page(title: str, events: Sequence[Event], verdict: Verdict, command: str) -> str:
    begin = events[0].ns if events else 0
    phases = "\n".join(
        f"| {each.value['name']} | {_seconds(each, begin)} |"
        for each in events
        if each.op == "phase"
    )
    faults = "\n".join(
        f"- {_seconds(each, begin)}: {each.value['name']} "
        + (f"missed: {each.value['missed']}" if "missed" in each.value else each.op + "ed")
        if each.op == "fault"
        else f"- {_seconds(each, begin)}: {each.value['name']} healed"
        for each in events
        if each.op in ("fault", "heal")
    ).replace("faulted", "done")
    counts = "\n".join(
        f"- {name}: {count}" for name, count in sorted(verdict.counts.items()) if count
    )
    findings = "\n\n".join(f"```\n{each}\n```" for each in verdict.findings)
    count = len(verdict.findings)
    return _PAGE.format(
        title=title,
        verdict=f"**{count} broken promises.**" if count else "No promise was broken.",
        command=command,
        phases=phases,
        faults=faults or "None.",
        counts=counts or "Nothing.",
        findings=findings or "None.",
    )


def _seconds(event: Event, begin: int) -> str:
    return f"{(event.ns - begin) / 1e9:.1f} s"
