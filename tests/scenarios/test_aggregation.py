"""`aggregation.txt`: windows as a client sees them, sealed by time and by size.

    model NAME setting=number ...     put a model version, and apply
    executor ID slots=number          let one join, and apply
    admit ID ... [rows=number]        propose requests, and what is decided with them
    complete BATCH                    propose the report of a batch, and what is decided with it
    decide                            propose what is to be decided now, if anything
    wait MS                           let log time pass
    apply                             apply all that was proposed
    lead                              let another leader begin

Below each command, indented, stand the records of the entry, and the effects of
what was applied. A trace that changed is looked at, then written anew with
`pytest tests/scenarios --rewrite`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.core.effects import Ended, Finished, Led, Placed
from raftbatch import records as r
from raftbatch.settings import Model
from tests.scenarios.language import INDENT
from tests.unit.core.leading import Leading

SCRIPT = Path(__file__).parent / "aggregation.txt"


class Script:
    """Runs commands, and tells what came of each."""

    def __init__(self) -> None:
        self._leading = Leading()
        self._leading.lead()
        self._leading.apply()
        self._models: list[tuple[str, str]] = []

    def run(self, command: str) -> list[str]:
        """Run one command; return the lines of its trace."""
        verb, *words = command.split()
        settings = {
            name: int(value) for name, _, value in (w.partition("=") for w in words) if value
        }
        names = [word for word in words if "=" not in word]
        leading = self._leading
        match verb:
            case "model":
                self._models.append((names[0], "1"))
                model = Model(names[0], "1", **settings)  # type: ignore[arg-type]
                return self._proposed(r.PutModel(model)) + self._applied()
            case "executor":
                ready = tuple(self._models)
                join = r.Join(names[0], 0, settings["slots"], ready, b"")
                return self._proposed(join) + self._applied()
            case "admit":
                return self._proposed(leading.admit(*names, rows=settings.get("rows", 1)))
            case "complete":
                return self._proposed(leading.complete(int(names[0])))
            case "decide":
                return self._proposed()
            case "wait":
                leading.at_ms += int(names[0])
                return []
            case "apply":
                return self._applied()
            case "lead":
                leading.lead()
                return ["proposed Lead"]
            case _:
                raise ValueError(f"no command {verb!r}")

    def _proposed(self, *records: r.Record) -> list[str]:
        told = [_shown(each) for each in self._leading.propose(*records)]
        return [f"proposed {', '.join(told)}" if told else "nothing to propose"]

    def _applied(self) -> list[str]:
        lines = []
        for applied in self._leading.apply():
            for effect in applied.effects:
                match effect:
                    case Placed():
                        lines.append(f"{effect.executor} runs batch {effect.batch}")
                    case Finished():
                        lines.append(f"{effect.executor} has finished batch {effect.batch}")
                    case Ended():
                        ids = " ".join([each.request_id for each in effect.requests])
                        lines.append(f"ended {ids}")
                    case Led():
                        lines.append(f"leader of term {effect.term}")
                    case _:
                        pass
        return lines


def _shown(record: r.Record) -> str:
    match record:
        case r.Admit():
            numbers = range(record.first, record.first + len(record.request_id))
            pairs = zip(record.request_id, numbers, strict=True)
            return "Admit " + " ".join([f"{name}={number}" for name, number in pairs])
        case r.Seal():
            numbers_ = " ".join(map(str, record.numbers))
            return f"Seal {record.batch} by {record.reason.name.lower()} ({numbers_})"
        case r.Assign():
            return f"Assign {record.batch} to {record.executor}"
        case r.Complete():
            return f"Complete {record.batch}"
        case _:
            return type(record).__name__


def test_aggregation(request: pytest.FixtureRequest) -> None:
    """The trace is the same."""
    text = SCRIPT.read_text(encoding="utf-8")
    script = Script()
    lines = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [INDENT + told for told in script.run(line)]
    found = "\n".join(lines) + "\n"
    if request.config.getoption("--rewrite"):
        SCRIPT.write_text(found, encoding="utf-8")
    else:
        assert found.splitlines() == text.splitlines()
