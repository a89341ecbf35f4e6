"""A small run of the demo, as its log and its client tell it: what a test changes, it breaks.

Four sentences in two batches: the first has its outcome before the leader n1 is killed, the
second after it, and x1, which had it first, is lost.
"""

from __future__ import annotations

from dataclasses import replace

from demo.audit import Answer, Seen, Told, Verdict, audit, fold
from raftbatch import records as r
from raftbatch.kinds import LapseReason, OutcomeKind, Ran, Release
from raftbatch.settings import Model

MODEL = "embedder"
KEY = (MODEL, "1", "text:BYTES[1]/128")
NAMES = ("sentence-00000", "sentence-00001", "sentence-00002", "sentence-00003")
LEAD_AT = 8  # the entry with which n2 begins to lead
ALIKE = [1.0, 0.999999]

Log = dict[int, tuple[int, tuple[r.Record, ...]]]
"""Term and records of each entry, by its index; its log time is 100 ms for each."""


def admit(first: int, *names: str) -> r.Admit:
    """Take requests in."""
    count = len(names)
    return r.Admit(
        first,
        (KEY,),
        ("default",),
        (0,) * count,
        (0,) * count,
        names,
        tuple(name.encode().ljust(16)[:16] for name in names),
        (1,) * count,
        (1,) * count,
        (0,) * count,
        (b"text",) * count,
        (b"",) * count,
        ("",) * count,
    )


def complete(
    batch: int, attempt: int, fence: int, executor: str, incarnation: int, *numbers: int
) -> r.Complete:
    """Report a batch, all of it ok."""
    count = len(numbers)
    timing = (1, 1, 1, 1)
    return r.Complete(
        batch,
        attempt,
        fence,
        executor,
        incarnation,
        True,
        *timing,
        (count,),
        b"fingerprint",
        numbers,
        (OutcomeKind.OK,) * count,
        ("",) * count,
        ("",) * count,
        (b"vector",) * count,
    )


def log() -> Log:
    """Return the log, as it should be."""
    return {
        1: (1, (r.Lead("n1", 0, 1), r.PutModel(Model(MODEL, "1")))),
        2: (1, (r.Join("x1", 0, 2, ((MODEL, "1"),), b""),)),
        3: (1, (r.Join("x2", 0, 2, ((MODEL, "1"),), b""),)),
        4: (1, (admit(1, *NAMES[:2]), r.Seal(1, KEY, Release.SIZE, (1, 2)))),
        5: (1, (r.Assign(1, 1, "x2", 3), admit(3, *NAMES[2:]))),
        6: (1, (r.Seal(2, KEY, Release.AGE, (3, 4)), r.Assign(2, 1, "x1", 2))),
        7: (1, (complete(1, 1, 5, "x2", 3, 1, 2),)),
        LEAD_AT: (2, (r.Lead("n2", 0, 1),)),
        9: (2, (r.Lapse(2, 1, 6, LapseReason.EXECUTOR_LOST, Ran.UNKNOWN, False, "", ""),)),
        10: (2, (r.Assign(2, 2, "x2", 3),)),
        11: (2, (complete(2, 2, 10, "x2", 3, 3, 4),)),
    }


def told(entries: Log, first_index: int = 1) -> Told:
    """Return what a log tells."""
    return fold(
        [
            (index, term, r.Entry(term, 100 * index, found))
            for index, (term, found) in entries.items()
        ],
        first_index,
    )


def seen() -> Seen:
    """Return what the client saw: the kill at 10 s, the first answer behind it 250 ms later."""
    return Seen(
        asked=set(NAMES),
        answers={
            NAMES[0]: Answer(9.0, 7, "x2"),
            NAMES[1]: Answer(9.1, 7, "x2"),
            NAMES[2]: Answer(11.0, 11, "x2"),
            NAMES[3]: Answer(11.0, 11, "x2"),
        },
        tickets=[(9.5, 5), (10.25, 9)],
        leader="n1",
        executor="x1",
        begun_s=8.0,
        ended_s=11.0,
        leader_killed_s=10.0,
        executor_killed_s=10.1,
        restarted_s=10.2,
        in_flight=frozenset(NAMES[2:]),
        entry_known=7,
    )


def verdict(entries: Log | None = None, by_client: Seen | None = None) -> Verdict:
    """Return the verdict on a log and on what the client saw; by default as they should be."""
    return audit(told(entries or log()), by_client or seen(), ALIKE, MODEL)


def without(entries: Log, index: int) -> Log:
    """Return the log without an entry."""
    return {at: each for at, each in entries.items() if at != index}


def later(by_client: Seen, seconds: float) -> Seen:
    """Return what was seen, with all that came after the kill that much later."""
    return replace(
        by_client,
        tickets=[
            (at_s + (seconds if at_s > by_client.leader_killed_s else 0), index)
            for at_s, index in by_client.tickets
        ],
    )
