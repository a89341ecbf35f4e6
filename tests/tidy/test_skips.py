"""A skipped test is a failure where CI=true, and harmless elsewhere (tests/conftest.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

_SKIPPED_TEST = "import pytest\n@pytest.mark.skip(reason='no strace')\ndef test_a(): ...\n"
_SKIPPED_MODULE = "import pytest\npytest.skip('no strace', allow_module_level=True)\n"
_EXPECTED_FAILURE = "import pytest\n@pytest.mark.xfail\ndef test_a(): assert False\n"
_PASSED = "def test_b(): ...\n"


def _run(folder: Path, text: str, ci: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest over one file, with our conftest as its plugin, and without those of others."""
    (folder / "test_example.py").write_text(text, encoding="utf-8")
    (folder / "test_passed.py").write_text(_PASSED, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        os.devnull,
        *options,
        str(folder),
    ]
    quick = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {**os.environ, "CI": ci, **quick}
    return subprocess.run(
        command, cwd=ROOT, env=environment, timeout=60, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("text", [_SKIPPED_TEST, _SKIPPED_MODULE])
def test_skip_fails_the_run_in_ci_alone(tmp_path: Path, text: str) -> None:
    in_ci = _run(tmp_path, text, "true")
    assert in_ci.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_example.py: no strace" in in_ci.stdout.replace("::test_a", "")
    assert _run(tmp_path, text, "").returncode == pytest.ExitCode.OK


@pytest.mark.parametrize("text", [_SKIPPED_TEST, _SKIPPED_MODULE])
def test_skip_in_a_worker_fails_the_run_in_ci_too(tmp_path: Path, text: str) -> None:
    in_ci = _run(tmp_path, text, "true", "-p", "xdist", "-n", "2")
    assert in_ci.returncode == pytest.ExitCode.TESTS_FAILED, in_ci.stdout + in_ci.stderr
    assert in_ci.stdout.replace("::test_a", "").count("test_example.py: no strace") == 1


def test_skip_is_not_what_an_expected_failure_is(tmp_path: Path) -> None:
    assert _run(tmp_path, _EXPECTED_FAILURE, "true").returncode == pytest.ExitCode.OK
