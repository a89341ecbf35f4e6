"""What a node says of itself: bounded, strict, and compared where both say something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

from coordinator.about import about_founding, about_running
from coordinator.config import load_node
from coordinator.raft import about
from coordinator.raft.about import NOTHING, PAIRS_MAX, About
from coordinator.raft.timing import Timing
from raftbatch.ids import NodeId
from raftbatch.realworld import RealFiles

N1, N2 = NodeId("n1"), NodeId("n2")
EXAMPLE = About("n1.example:8001", "", (("cluster.name", "a b"), ("timing.heartbeat_ms", 50)))

FILE = """
[cluster]
name = "one"
[nodes.n1]
peer = "127.0.0.1:1"
client = "127.0.0.1:2"
[models.m]
"""


def test_about_survives_its_bytes() -> None:
    for each in (EXAMPLE, NOTHING, About("", "[::1]:9")):
        assert about.decode(about.encode(each)) == each


@pytest.mark.parametrize(
    ("client", "http", "file"),
    [
        ("nowhere", "", ()),
        ("x:1\n", "", ()),
        ("", "0", ()),
        ("\x1b[2Jx:1", "", ()),
        ("a" * 300 + ":1", "", ()),
        ("", "http://x:1", ()),
        (7, "", ()),
        ("", "", (("B", 1),)),
        ("", "", (("a.b.c", 1),)),
        ("", "", (("a", -1),)),
        ("", "", (("a", 1 << 63),)),
        ("", "", (("a", True),)),
        ("", "", (("a", 1.0),)),
        ("", "", (("a", "x" * 257),)),
        ("", "", (("a", "\x1b"),)),
        ("", "", ((1, 1),)),
        ("", "", (("b", 1), ("a", 1))),
        ("", "", (("a", 1), ("a", 2))),
        ("", "", tuple((f"k{'_' * n}", n) for n in range(PAIRS_MAX + 1))),
    ],
)
def test_about_that_lies_about_its_form_is_none(client: Any, http: Any, file: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each with another text
        About(client, http, file)
    data = msgpack.packb([client, http, [list(each) for each in file]])
    with pytest.raises(ValueError):  # noqa: PT011
        about.decode(data)


def test_about_has_one_form_alone() -> None:
    for wrong in (about.encode(EXAMPLE) + b"\0", b"\xd9\x00", msgpack.packb(["", ""]), "text", 3):
        with pytest.raises(ValueError):  # noqa: PT011
            about.decode(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one form"):
        about.decode(b"\xdc\x00\x03" + about.encode(EXAMPLE)[1:])


def test_about_differs_where_both_say_something() -> None:
    ours = About("a:1", "", (("a", 1), ("b", "x"), ("c", 3)))
    theirs = About("b:1", "", (("b", "y"), ("c", 3), ("d", 4)))
    [found] = ours.differences(theirs)
    assert found.text(N1, N2) == "b is x in the file of n1, and y in n2's"
    assert [each.ours for each in theirs.differences(ours)] == ["y"]


def _abouts(folder: Path, text: str) -> tuple[About, About]:
    path = folder / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    config = load_node(RealFiles(), str(path), "n1")
    return about_founding(config), about_running(config)


def _differing(folder: Path, text: str) -> tuple[list[str], list[str]]:
    """Return which keys differ, from those of `FILE`, for founders and for nodes that run."""
    pairs = zip(_abouts(folder, FILE), _abouts(folder, text), strict=True)
    founding, running = ([each.key for each in a.differences(b)] for a, b in pairs)
    return founding, running


def test_about_says_where_clients_are(tmp_path: Path) -> None:
    for each in _abouts(tmp_path, FILE):
        assert (each.client, each.http) == ("127.0.0.1:2", "")
        assert about.decode(about.encode(each)) == each
    with_http = FILE.replace("[models.m]", 'http = "127.0.0.1:3"\n[models.m]')
    assert [each.http for each in _abouts(tmp_path, with_http)] == ["127.0.0.1:3"] * 2


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ('name = "one"|name = "two"', "cluster.name"),
        ('name = "one"|name = "one"\nreplica = "opaque"', "cluster.replica"),
        *(
            (f"[models.m]|[models.m]\n[timing]\n{key} = {value + 1}", f"timing.{key}")
            for key, value in {each: getattr(Timing(), each) for each in Timing.__slots__}.items()
        ),
        ("[models.m]|[models.m]\n[storage]\nentry_bytes_max = 9999", "storage.entry_bytes_max"),
        ("[models.m]|[models.m]\n[storage]\nsnapshot_bytes_max = 9", "storage.snapshot_bytes_max"),
        ("[models.m]|[models.m]\n[log]\nmessage_bytes_max = 9999", "log.message_bytes_max"),
        (
            "[models.m]|[models.m]\n[transport]\nmessage_bytes_max = 60_000_000",
            "transport.message_bytes_max",
        ),
    ],
)
def test_what_must_be_equal_is_said_by_founders_and_later(
    tmp_path: Path, change: str, key: str
) -> None:
    old, _, new = change.partition("|")
    assert _differing(tmp_path, FILE.replace(old, new)) == ([key], [key])


@pytest.mark.parametrize(
    ("text", "founding", "running"),
    [
        ("max_batch_size = 3", ["models"], []),
        ("[models.other]", ["models"], []),
        ("[policy]\nmodels_max = 7", ["policy"], []),
        ("[leader]\nlease_ms = 2999", [], ["leader.lease_ms"]),
        ("[server]\nmessage_bytes_max = 41_000_000", [], ["server.message_bytes_max"]),
        (
            "[tls]\nca = 'a'\ncert = 'b'\nkey = 'c'\n[tls.roles]\nclient = ['x']",
            [],
            ["tls.roles"],
        ),
        ("[tls]\nca = 'a'\ncert = 'b'\nkey = 'c'\n[tls.roles]\nclient = []", [], []),
        ("[storage]\ndata_dir = 'elsewhere'\ndisk_low_bytes = 9_000_000_000", [], []),
        ("[models.m.executor]\nfile = 'm.py'", [], []),
    ],
)
def test_what_founders_write_into_the_log_counts_then_alone(
    tmp_path: Path, text: str, founding: list[str], running: list[str]
) -> None:
    assert _differing(tmp_path, FILE + text + "\n") == (founding, running)
