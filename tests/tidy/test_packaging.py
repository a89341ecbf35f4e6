"""The wheel holds the product alone, and is whole in an empty environment, without torch."""

import json
import subprocess
import sys
import venv
from collections.abc import Collection, Mapping
from pathlib import Path
from signal import SIGINT
from threading import Timer
from zipfile import ZipFile

import pytest

from tests.tidy.tree import PRODUCT, ROOT, expect_none

pytestmark = pytest.mark.slow

DATA = ("raftbatch/local/cluster.toml",)
"""What is no module, and goes with them: the configuration that `raftbatch up` begins with."""

# Runs in the empty environment, away from the repository: imports all, and tells who owns what.
_PROBE = """
import importlib, importlib.metadata, importlib.util, json, pkgutil
assert importlib.util.find_spec("torch") is None, "the environment is not empty"
for top in {tops!r}:
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # the extra `executor` brings it
            assert error.name == "numpy" and top == "executor", module.name
print(json.dumps(importlib.metadata.packages_distributions()))
"""


def check_contents(names: Collection[str]) -> list[str]:
    """Complain about what a wheel's file list has beyond the product, or lacks of it."""
    tops = {name.partition("/")[0] for name in names}
    tops = {top for top in tops if not top.endswith(".dist-info")}
    complaints = [f"{top}: must not be in the wheel" for top in sorted(tops - set(PRODUCT))]
    complaints += [
        f"{top}/{name}: missing from the wheel"
        for top in PRODUCT
        for name in ("__init__.py", "py.typed")
        if f"{top}/{name}" not in names
    ]
    complaints += [f"{name}: missing from the wheel" for name in DATA if name not in names]
    if not any(name.endswith("licenses/LICENSE") for name in names):
        complaints.append("LICENSE: missing from the wheel")
    return complaints


def check_owners(owners: Mapping[str, Collection[str]]) -> list[str]:
    """Complain about each of our top-level names that somebody else has too."""
    complaints = []
    for top in PRODUCT:
        if top in sys.stdlib_module_names:
            complaints.append(f"{top}: shadows the standard library")
        if others := set(owners.get(top, ())) - {"raftbatch"}:
            complaints.append(f"{top}: also owned by {', '.join(sorted(others))}")
        if "raftbatch" not in owners.get(top, ()):
            complaints.append(f"{top}: not installed")
    return complaints


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, with the backend that is installed already."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone, and return the folder of its environment's commands."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder)
    # This environment's pip installs into that one, which stays without a pip of its own.
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    command += ["--constraint", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(command, check=True, timeout=240)
    return folder / "bin"


def test_wheel_holds_the_product_alone(wheel: Path) -> None:
    expect_none(check_contents(ZipFile(wheel).namelist()))


def test_wheel_imports_whole_without_torch_and_shadows_nothing(
    scripts: Path, tmp_path: Path
) -> None:
    probe = [str(scripts / "python"), "-W", "error", "-c", _PROBE.format(tops=PRODUCT)]
    run = subprocess.run(
        probe, cwd=tmp_path, check=True, timeout=120, stdout=subprocess.PIPE, text=True
    )
    expect_none(check_owners(json.loads(run.stdout)))


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["up", "--help"]])
def test_wheel_brings_a_command_that_starts(
    scripts: Path, tmp_path: Path, words: list[str]
) -> None:
    command = [str(scripts / "raftbatch"), *words]
    run = subprocess.run(command, cwd=tmp_path, check=True, timeout=60, capture_output=True)
    assert b"raftbatch" in run.stdout
    assert run.stderr == b""


@pytest.mark.serial  # it takes the ports that others may take, too
def test_wheel_brings_a_cluster_that_starts_in_an_empty_folder(
    scripts: Path, tmp_path: Path
) -> None:
    # Without executors, whose models need more than the wheel brings.
    command = [str(scripts / "raftbatch"), "up", "--nodes", "1", "--executors", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout is not None
        assert up.stderr is not None
        limit = Timer(60, up.kill)
        limit.start()
        try:
            for line in up.stdout:
                if json.loads(line)["event"] == "cluster.ready":
                    up.send_signal(SIGINT)
            assert up.stderr.read() == ""
        finally:
            limit.cancel()
            up.kill()
    assert up.returncode == 0
    assert [each.name for each in tmp_path.iterdir()] == ["raftbatch-data"]


def test_contents_fire_on_too_much_and_too_little() -> None:
    whole = {f"{top}/{name}" for top in PRODUCT for name in ("__init__.py", "py.typed")}
    whole |= {"raftbatch-1.dist-info/licenses/LICENSE", *DATA}
    assert check_contents(whole) == []
    assert len(check_contents(whole | {"chaos/__init__.py"})) == 1
    assert len(check_contents(whole - {"executor/py.typed"})) == 1
    assert len(check_contents(whole - set(DATA))) == 1
    assert len(check_contents({name for name in whole if "LICENSE" not in name})) == 1


def test_owners_fire_on_a_shared_and_a_missing_name() -> None:
    owners = {top: ["raftbatch"] for top in PRODUCT}
    assert check_owners(owners) == []
    assert len(check_owners(owners | {"executor": ["raftbatch", "executor"]})) == 1
    assert len(check_owners(owners | {"coordinator": []})) == 1
