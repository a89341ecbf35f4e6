"""One example of each record, with something in every field."""

from __future__ import annotations

from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran, Release
from raftbatch.settings import Model, Policy, TenantLimits

KEY = ("bert", "1", "ids:INT64[64]")

EXAMPLES: dict[str, r.Record] = {
    "lead": r.Lead("n1", 1_700_000_000_000, 1),
    "admit": r.Admit(
        7,
        (KEY, ("bert", "2", "ids:INT64[128]")),
        ("acme", "umbrella"),
        (0, 1, 0),
        (0, 0, 1),
        ("a", "b", "größe"),
        (b"0123456789abcdef", b"1123456789abcdef", b"2123456789abcdef"),
        (1, 1, 1),
        (1, 0, 2),
        (5000, 0, 300),
        (b"payload", b"", b"\x00" * 40),
        (b"", b"\x81\xa1a\x01", b""),
        ("", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ""),
    ),
    "cancel": r.Cancel(("acme", "acme"), ("a", "b")),
    "acknowledge": r.Acknowledge(("acme",), ("a",)),
    "forget": r.Forget(("acme", "umbrella"), ("a", "a")),
    "seal": r.Seal(3, KEY, Release.SIZE, (7, 9)),
    "assign": r.Assign(3, 1, "gpu-1", 12),
    "lapse": r.Lapse(3, 1, 40, LapseReason.TIMED_OUT, Ran.YES, False, "timed_out", "30 s"),
    "complete": r.Complete(
        3,
        1,
        40,
        "gpu-1",
        12,
        True,
        100,
        200,
        3_000_000_000,
        400,
        (2, 64),
        b"fingerprint",
        (7, 9),
        (0, 1),
        ("", "bad_input"),
        ("", "no such token"),
        (b"result", b""),
    ),
    "bisect": r.Bisect(3, 4, 5),
    "quarantine": r.Quarantine(5),
    "release_quarantined": r.ReleaseQuarantined((9,)),
    "join": r.Join("gpu-1", 0, 2, (("bert", "1"),), b"attributes"),
    "ready": r.Ready("gpu-1", 12, (("bert", "1"), ("bert", "2"))),
    "drain": r.Drain("gpu-1", 12, True),
    "leave": r.Leave("gpu-1", 12, True, (3,)),
    "free": r.Free("gpu-1", 12, (3, 4), (40, 40)),
    "probe": r.Probe("gpu-1", 12, True),
    "put_model": r.PutModel(Model("bert", "1", preferred_batch_size=(4, 8), content=b"c")),
    "delete_model": r.DeleteModel("bert", "1"),
    "put_policy": r.PutPolicy(
        Policy(  # retention as it was when the bytes were pinned
            outcome_retention_ms=600_000,
            dedupe_retention_ms=900_000,
            tenants=(TenantLimits("acme", 10, 20, 30),),
        )
    ),
    "advance": r.Advance(),
}


def entry(record: r.Record) -> r.Entry:
    """Return an entry of one record."""
    return r.Entry(5, 1_700_000_000_123, (record,))
