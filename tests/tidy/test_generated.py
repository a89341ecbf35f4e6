"""Generated code is what `make proto` would write now: nothing edited, missing or left over."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.tidy.tree import PRODUCT, ROOT, expect_none, is_generated


def check_generated(committed: Mapping[str, str], fresh: Mapping[str, str]) -> list[str]:
    """Complain about each file that differs; keys are paths. Total. Deterministic."""
    return [
        f"{path}: not what proto/ makes of it: run `make proto`"
        for path in sorted(committed.keys() | fresh.keys())
        if committed.get(path) != fresh.get(path)
    ]


def _generated_below(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for package in PRODUCT
        for path in (root / package).rglob("*")
        if is_generated(path.name)
    }


def test_generated_code_is_fresh_in_the_tree(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "proto" / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    fresh = _generated_below(tmp_path)
    assert fresh, "nothing was generated"
    expect_none(check_generated(_generated_below(ROOT), fresh))


def test_generated_code_fires_on_edited_missing_and_left_over_files() -> None:
    fresh = {"a_pb2.py": "1", "b_pb2.py": "2"}
    assert check_generated(fresh, fresh) == []
    assert len(check_generated({"a_pb2.py": "1 edited", "b_pb2.py": "2"}, fresh)) == 1
    assert len(check_generated({"a_pb2.py": "1"}, fresh)) == 1
    assert len(check_generated(fresh | {"c_pb2.py": "3"}, fresh)) == 1
