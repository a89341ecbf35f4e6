"""What README.md tells people to type does what it says: each command is run as it stands there.

Commands are the lines of its indented blocks. They run in an empty folder, where
`.venv/bin/raftbatch` is this Python's; `cluster_configs/local-3.toml`, and what `raftbatch up`
would write at its first start, are there with free ports. What goes on until it is stopped is
ended with its section. `make test` alone is left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from raftbatch.local import LocalCluster
from tests.e2e.cluster import free_ports
from tests.e2e.demo_needs import needs_demo
from tests.e2e.processes import Process
from tests.tidy.tree import ROOT

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIG = "cluster_configs/local-3.toml"
_START_S = 120.0  # three processes or five, on a machine that has other things to do
_FENCED = re.compile(r"^```.*?^```\n", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)
_BUSY = ("up", "serve", "executor")
"""Commands that go on until they are stopped."""


@dataclass
class Section:
    """What stands below one heading.

    Attributes:
        title: the heading.
        commands: lines for a shell, and programs in Python, in their order.
    """

    title: str
    commands: list[str] = field(default_factory=list)


def sections(text: str) -> list[Section]:
    """Return the sections of a document that tell what to type."""
    found = []
    for part in re.split(r"^#+ ", _FENCED.sub("", text), flags=re.MULTILINE)[1:]:
        section = Section(part.partition("\n")[0])
        for block in _BLOCK.findall(part):
            code = re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n")
            is_python = code.startswith(("from ", "import "))
            section.commands += [code] if is_python else code.splitlines()
        if section.commands:
            found.append(section)
    return found


def made(command: str) -> bool:
    """Return whether `make` runs it."""
    return command.startswith("make ")


COMMANDS = [command for section in sections(README) for command in section.commands]


class Reader:
    """Somebody who types what a section says.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "TERM": "dumb",
            "COLUMNS": "200",
        }
        self._busy: list[Process] = []
        program = folder / ".venv" / "bin" / "raftbatch"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m raftbatch "$@"\n')
        program.chmod(0o755)
        self._write_config()

    def type(self, section: Section) -> dict[str, str]:
        """Run the commands of a section; return what those printed that end by themselves."""
        said = {}
        with ExitStack() as stack:
            for command in section.commands:
                if "\n" in command:
                    said[command] = self._run([sys.executable, "-c", self._placed(command)])
                    continue
                name = shlex.split(command)[1]
                if name in _BUSY:
                    self._busy.append(stack.enter_context(self._start(command)))
                    if name != "serve" or "--node n3" in command:  # the others wait for it
                        self._wait(name)
                else:
                    said[command] = self._run(["sh", "-c", command])
            for process in reversed(self._busy):
                assert process.terminate() == 0, process.said
        return said

    def _start(self, command: str) -> Process:
        script = f"cd {shlex.quote(str(self._folder))} && exec {command} >&2"
        return Process(["sh", "-c", script], self._environment)

    def _wait(self, name: str) -> None:
        """Wait until what was started can be used."""
        sign = {"up": "Ctrl-C stops all", "serve": "node.started", "executor": "executor.joined"}
        waited = self._busy if name == "serve" else self._busy[-1:]
        for process in waited:
            process.until(
                lambda of=process: sign[name] in of.unlocked() or not of.is_up,  # type: ignore[misc]
                sign[name],
                _START_S,
            )
            assert process.is_up, process.said

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=os.environ | self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _placed(self, program: str) -> str:
        """Return a program with the addresses that the cluster of `raftbatch up` really has."""
        text = (self._folder / "raftbatch-data" / "cluster.toml").read_text(encoding="utf-8")
        assert "127.0.0.1:8001" in program
        for number, node in enumerate(tomllib.loads(text)["nodes"].values()):
            program = program.replace(f"127.0.0.1:80{number}1", f"at-{number}:{node['client']}")
        return re.sub(r"at-\d:", "", program)

    def _write_config(self) -> None:
        """Write the configurations, with free ports: others may test on this machine."""
        LocalCluster(self._folder / "raftbatch-data").close()  # writes one, and begins nothing
        text = (ROOT / CONFIG).read_text(encoding="utf-8")
        wanted = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text)))
        for port, free in zip(wanted, free_ports(len(wanted)), strict=True):
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
        place = self._folder / CONFIG
        place.parent.mkdir()
        place.write_text(text, encoding="utf-8")


def test_readme_opens_with_two_commands_that_do_all() -> None:
    first = sections(README)[0]
    assert (first.title, first.commands) == ("raftbatch", ["make demo", "make test"])
    others = [each for each in COMMANDS if not made(each) and "\n" not in each]
    assert all(each.startswith(".venv/bin/raftbatch ") for each in others), others
    assert [each for each in COMMANDS if made(each)] == first.commands


def test_readme_commands_are_read_from_its_indented_blocks() -> None:
    text = "# A\n\n    make demo\n\ntext\n\n```text\n    no\n```\n\n## B\n\ntext\n\n## C\n\n"
    text += "    from a import b\n\n    b()\n\n    one --x\n    two\n"
    found = [(each.title, each.commands) for each in sections(text)]
    assert found == [("A", ["make demo"]), ("C", ["from a import b\n\nb()\n\none --x\ntwo"])]
    assert sections("# A\n\n    one --x\n    two\n")[0].commands == ["one --x", "two"]


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(each, id=each.title)
        for each in sections(README)
        if not all(map(made, each.commands))
    ],
)
def test_readme_commands_do_what_it_says(section: Section, tmp_path: Path) -> None:
    said = Reader(tmp_path).type(section)
    for command, printed in said.items():
        if "client.map" in command:
            assert printed.split() == ["one", "two", "three"]
        elif "client.submit" in command:
            assert printed.split() == ["now", "later"]
        elif " infer echo hello" in command or " result " in command:
            assert "hello" in printed
        elif " status " in command:
            assert "leader" in printed
        elif " log tail" in command or " request show" in command:
            assert "echo" in printed


@needs_demo
def test_readme_demo_loses_and_doubles_nothing() -> None:
    # As it stands there, but short, and with this Python: its environment is made already.
    assert "make demo" in COMMANDS
    makefile = ["--old-file=.venv/.stamp-demo", f"BIN={Path(sys.executable).parent}"]
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    done = subprocess.run(
        ["make", *makefile, "demo", "SENTENCES=80"],
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if name not in outer},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * _START_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    last = r"demo ok: requests=\d+ lost=0 doubled=0 failover_ms=\d+"
    assert re.fullmatch(last, lines[-1]), lines
    for said in ("SIGKILL n", "SIGKILL x1, an executor", "again", "One of 20 sentences in flight"):
        assert any(said in line for line in lines), said
