"""Entries and their bytes: canonical, pinned, and nothing else is read in their place."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgpack
import pytest

from raftbatch import records as r
from raftbatch.codec import (
    VERSION,
    check_record,
    decode_entry,
    encode_entry,
    encode_record,
)
from raftbatch.errors import InvalidRequest, Undecodable
from raftbatch.packed_settings import pack_policy, unpack_policy
from raftbatch.settings import Model, Policy, TenantLimits
from tests.unit.record_examples import EXAMPLES, KEY, entry

GOLDEN = Path(__file__).parent / "golden"
FUZZED_INPUTS = 100_000


def _changed(entry_: r.Entry, at: int, value: object) -> bytes:
    """Return the bytes of an entry with one part of its record replaced."""
    version, term, at_ms, ((*parts,),) = msgpack.unpackb(encode_entry(entry_), use_list=False)
    parts[at] = value
    return bytes(msgpack.packb((version, term, at_ms, (tuple(parts),))))


def test_every_record_has_an_example() -> None:
    assert {type(each) for each in EXAMPLES.values()} == set(get_args(r.Record))


@pytest.mark.parametrize("name", EXAMPLES)
def test_entries_come_back_equal(name: str) -> None:
    data = encode_entry(entry(EXAMPLES[name]))
    found = decode_entry(memoryview(data))
    assert replace(found, checksum=0) == entry(EXAMPLES[name])
    assert found.checksum != 0
    assert encode_record(EXAMPLES[name]) in data


@pytest.mark.parametrize("name", EXAMPLES)
def test_bytes_are_those_of_the_golden_files(name: str, request: pytest.FixtureRequest) -> None:
    """A file is written where there is none, with `--rewrite`; one that is there never changes."""
    path = GOLDEN / f"{name}.v{VERSION}.bin"
    if request.config.getoption("--rewrite") and not path.exists():
        path.write_bytes(encode_entry(entry(EXAMPLES[name])))
    assert path.read_bytes() == encode_entry(entry(EXAMPLES[name]))


def test_golden_files_of_all_versions_are_read() -> None:
    files = sorted(GOLDEN.glob("*.bin"))
    assert len(files) >= len(EXAMPLES)
    for path in files:
        assert decode_entry(path.read_bytes()).records


def test_version_is_in_front_and_one_that_is_not_known_is_named() -> None:
    data = encode_entry(entry(EXAMPLES["advance"]))
    assert data[:2] == bytes([0x94, VERSION])
    with pytest.raises(Undecodable, match="version 2 is not known"):
        decode_entry(bytes([0x94, 2]) + data[2:])


def test_record_that_is_not_known_is_named() -> None:
    with pytest.raises(Undecodable, match="record 99"):
        decode_entry(_changed(entry(EXAMPLES["advance"]), 0, 99))


def test_equal_columns_are_one_value_and_no_other_form_is_read() -> None:
    cancel = r.Cancel(("t", "t", "t"), ("a", "b", "c"))
    data = encode_entry(entry(cancel))
    assert data.count(b"\xa1t") == 1
    assert decode_entry(data).records == (cancel,)
    with pytest.raises(Undecodable, match="canonical"):
        decode_entry(_changed(entry(cancel), 2, ("t", "t", "t")))


def test_longer_form_of_a_number_is_not_read() -> None:
    data = encode_entry(r.Entry(5, 0, ()))
    assert data == b"\x94\x01\x05\x00\x90"
    with pytest.raises(Undecodable, match="canonical"):
        decode_entry(b"\x94\x01\xcc\x05\x00\x90")


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("lead", 1, "n\0"),
        ("lead", 1, "n" * 257),
        ("lead", 2, -1),
        ("lead", 2, 1 << 63),
        ("lead", 2, 1.0),
        ("lead", 2, True),
        ("lead", 2, None),
        ("admit", 1, 0),
        ("admit", 1, 65_537),
        ("admit", 3, ()),
        ("admit", 3, (KEY, KEY)),
        ("admit", 3, (("bert", "1"),)),
        ("admit", 5, (0, 2, 0)),
        ("admit", 5, (0, 1)),
        ("admit", 7, ("a", "b", "")),
        ("admit", 7, ("a", "b", "c\0d")),
        ("admit", 7, ("a", "b", b"c")),
        ("admit", 8, (b"x", b"y", b"z" * 65)),
        ("admit", 8, ("x", "y", "z")),
        ("admit", 9, (1, 1, 0)),
        ("admit", 9, (1, 1, True)),
        ("admit", 11, 1 << 41),
        ("seal", 3, 9),
        ("seal", 4, (7, 7)),
        ("seal", 4, (0, 7)),
        ("seal", 4, 7),
        ("assign", 3, b"gpu-1"),
        ("lapse", 6, 1),
        ("complete", 1, 3),
        ("complete", 12, "f"),
        ("complete", 13, (7, 8, 9)),
        ("complete", 14, 2),
        ("join", 3, 0),
        ("join", 4, (("bert", "1", "2"),)),
        ("free", 3, (1,)),
        ("put_model", 1, ()),
        ("put_policy", 1, 5),
        ("advance", 0, True),
        ("advance", 0, ()),
    ],
)
def test_values_out_of_their_kind_are_not_read(name: str, at: int, value: object) -> None:
    with pytest.raises(Undecodable):
        decode_entry(_changed(entry(EXAMPLES[name]), at, value))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\x94",
        b"\x93\x01\x01\x01",
        b"\x94\x01\x00\x00\x90",
        b"\x91" * 5000,
        b"\x94\x01\x01\x00\xc0",
        b"\x94\x01\x01\x00\x91\x90",
        b"\x94\x01\x01\x00\x91\x05",
        b"\x94\x01\x01\x00\xdf\xff\xff\xff\xff",
        b"\xc7\x01\x05\x00",
        b"\x94\x01\x01\x00\x90\x00",
    ],
)
def test_bytes_that_are_no_entry_are_not_read(data: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_entry(data)


@pytest.mark.parametrize("name", EXAMPLES)
def test_record_that_can_be_read_may_be_proposed(name: str) -> None:
    check_record(EXAMPLES[name])


@pytest.mark.parametrize(
    "record",
    [
        r.Lead("", 0, 0),
        r.Lead("n\ud800", 0, 0),
        r.Lead("n", 1 << 64, 0),
        r.Lead("n", -1, 0),
        r.Lead("n", True, 0),
        r.Cancel(("t",), ()),
        r.Cancel((), ()),
        r.Cancel(("t", "t"), ("a", "b\0")),
        r.ReleaseQuarantined((1, 1)),
        r.Assign(1, 1, object(), 1),  # type: ignore[arg-type]
        r.Free("e", 1, (1,), ()),
    ],
)
def test_record_that_no_replica_could_read_is_never_proposed(record: r.Record) -> None:
    with pytest.raises(InvalidRequest, match="cannot be proposed"):
        check_record(record)


def test_decoding_mutated_bytes_gives_one_error_and_no_other() -> None:
    """And what is read in spite of a mutation is an entry that has exactly these bytes."""
    draw = random.Random(1)
    samples = [encode_entry(entry(each)) for each in EXAMPLES.values()]
    samples.append(encode_entry(r.Entry(1, 2, tuple(EXAMPLES.values()))))
    read = 0
    for _ in range(FUZZED_INPUTS):
        data = bytearray(draw.choice(samples[:-1] if draw.random() < 0.95 else samples))
        for _ in range(draw.randint(1, 3)):
            match draw.randrange(4):
                case 0:
                    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
                case 1:
                    data[draw.randrange(len(data))] = draw.choice(
                        b"\x00\x7f\x80\x90\xc0\xc4\xdd\xff"
                    )
                case 2:
                    del data[draw.randrange(len(data)) :]
                    data += b"" if data else b"\xc0"
                case _:
                    at = draw.randrange(len(data) + 1)
                    data[at:at] = draw.randbytes(draw.randint(1, 4))
        try:
            assert encode_entry(decode_entry(data)) == data
            read += 1
        except Undecodable:
            pass
    assert 0 < read < FUZZED_INPUTS


@pytest.mark.parametrize("share", [0, 1 << 20])
@pytest.mark.parametrize("own", [0, 1 << 21])
def test_shares_of_outcomes_stand_behind_what_older_logs_have(share: int, own: int) -> None:
    limits = (TenantLimits("a", 1, 2, 3, own), TenantLimits("b", 4, 5, 6))
    policy = Policy(tenants=limits, tenant_outcome_bytes_max=share)
    packed = pack_policy(policy)
    assert isinstance(packed, tuple)
    assert unpack_policy(packed) == policy
    assert len(packed) == 25 + bool(share)  # as it always was, where there is none
    assert packed[24] == (("a", 1, 2, 3, *([own] if own else [])), ("b", 4, 5, 6))
    check_record(r.PutPolicy(policy))
    if not share:
        with pytest.raises(ValueError, match="0"):
            unpack_policy((*packed, 0))


@pytest.mark.parametrize(
    "settings",
    [
        {"requests_waiting_max": 0},
        {"outcome_bytes_max": 1 << 63},
        {"dedupe_retention_ms": 1},
        {"tenants": (TenantLimits("b", 1, 1, 1), TenantLimits("a", 1, 1, 1))},
        {"tenants": (TenantLimits("a", -1, 1, 1),)},
        {"tenants": (TenantLimits("a", 1, 1, 1, -1),)},
        {"tenants": (TenantLimits("a", 1, 1, 1, 127),)},
        {"tenant_outcome_bytes_max": 127},
        {"tenant_outcome_bytes_max": -1},
    ],
)
def test_policy_that_does_not_hold_together_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is|are"):
        Policy(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"max_batch_bytes": 0},
        {"max_batch_size": 1 << 21},
        {"priority_levels": 17},
        {"priority_levels": 1},
        {"backoff_permille": 999},
        {"attempts_max": 101},
        {"preferred_batch_size": (8, 4)},
        {"preferred_batch_size": (64,)},
    ],
)
def test_model_that_does_not_hold_together_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is|at most|would|does"):
        Model("m", "1", **settings)  # type: ignore[arg-type]
