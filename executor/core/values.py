"""What goes into the core, and what it asks for.

What lives here: values. What must never live here: a decision. Called by: the core and
its shell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from raftbatch.v1 import dispatch_pb2 as pb

ModelId = tuple[str, str]
"""Name and version."""

Name = tuple[int, int]
"""An assignment by batch and fence."""


class Stage(Enum):
    """How far an assignment is."""

    WAITING = 1
    RUNNING = 2
    STOPPING = 3
    """What runs it is being killed."""
    REPORTING = 4
    """It is over; what came of it is told, and held until the feed knows of it."""


class After(Enum):
    """What follows when the child is dead that ran an assignment."""

    FORGET = 1
    FREE = 2
    """It lapsed: its slot is confirmed to be free."""
    LAPSE = 3
    """It is given up."""


@dataclass(eq=False, slots=True)
class Held:
    """An assignment that takes a slot.

    Attributes:
        given: what the feed said.
        since_ns: when it came, on the shell's clock.
        stage: how far it is.
        started_ns: when it began to run.
        shed: numbers of requests that need neither run nor be reported.
        after: while it stops: what follows.
        reports: while it is reported: what is left to say; the first may be under way.
        is_told: whether the first of them is under way.
    """

    given: pb.Assignment
    since_ns: int
    stage: Stage = Stage.WAITING
    started_ns: int = 0
    shed: dict[int, None] = field(default_factory=dict)
    after: After = After.FORGET
    reports: list[pb.Report] = field(default_factory=list)
    is_told: bool = False

    @property
    def name(self) -> Name:
        """Batch and fence."""
        return self.given.batch, self.given.fence

    @property
    def model(self) -> ModelId:
        """Whose batch it is."""
        return self.given.model, self.given.version

    @property
    def places(self) -> list[int]:
        """Where, in the columns, the requests stand that are to run."""
        return [n for n, number in enumerate(self.given.numbers) if number not in self.shed]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request.

    Attributes:
        result: the envelope of its outputs; empty where it failed.
        code: slug of its failure; empty: it succeeded.
        message: of the failure.
    """

    result: bytes
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of a device, in use by anybody and in all, in bytes."""

    device: str
    memory_bytes: int
    memory_limit_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a batch that ran.

    Attributes:
        answers: of its requests, in the order in which they were handed over.
        compute_input_ns, infer_ns, output_ns: how long each part of the run took.
        padded: the padded shape.
        fingerprint: of model, libraries and device.
        memory: of its device after the run; None: it is the CPU.
    """

    answers: tuple[Answer, ...]
    compute_input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    padded: tuple[int, ...] = ()
    fingerprint: bytes = b""
    memory: DeviceMemory | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch, or a warm-up, that failed as a whole.

    Attributes:
        code: a slug.
        message: for people.
        is_lasting: whether the process that ran it can be trusted with nothing more.
    """

    code: str
    message: str
    is_lasting: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Asked of the shell: run a batch.

    Attributes:
        instance: which is to run it.
        run: a number that names this run; the instance's next answer is for it.
        given: the assignment.
        places: in its columns: which requests are to run.
    """

    instance: int
    run: int
    given: pb.Assignment
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Asked of the shell: let an instance run its warm-up, as a probe.

    Attributes:
        instance: which.
        run: a number that names this run.
    """

    instance: int
    run: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Asked of the shell: kill an instance, and tell the core when it is dead.

    Attributes:
        instance: which.
        why: for people.
    """

    instance: int
    why: str


Action = Run | WarmUp | Kill


@dataclass(frozen=True, slots=True)
class Due:
    """A report to send, as often as it takes.

    Attributes:
        incarnation: of which life it is.
        names: whose report it is: one assignment, or, of a Free, all of them.
        report: the message.
    """

    incarnation: int
    names: tuple[Name, ...]
    report: pb.Report


class Verdict(Enum):
    """What a report came to."""

    TAKEN = 1
    STALE = 2
    """The attempt is over: nothing more is said of it."""
    TOO_LARGE = 4
    """It is more than may travel, and is to be told in parts."""
    REJECTED = 3
    """It can never be taken as it is."""


Wish = pb.ReadyRequest | pb.DrainRequest | pb.LeaveRequest | pb.Probe
"""What an executor has to say of itself."""
