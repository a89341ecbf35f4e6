"""Group commit: what is asked of a leader, until it goes into an entry, and who is told.

Everything that waits at the moment an entry may be sent goes into it, requests
merged into the columns of one Admit: an entry holds one request where nothing
waits, and hundreds under load. A second Admit of an id that waits or is in flight
is kept aside until the first has landed, and then goes its own way.

What lives here: the values that callers hand in and are told, `Inbox` and `Group`.
What must never live here: when an entry is made (`leadership`), a decision, the
log. Called by: `leadership`. One thread: the loop's. Whoever is told is told once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

from coordinator.core.effects import Reply, Verdict, Verdicts
from coordinator.core.usage import Usage, usage_of
from raftbatch.codec import KEYS_MAX, check_record
from raftbatch.errors import NoLeader, NotLeader, RaftbatchError
from raftbatch.fields import BLOB_BYTES_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from raftbatch.kinds import Key
from raftbatch.records import Acknowledge, Admit, Cancel, Complete, Forget, Record

REQUEST_BYTES = 256
"""What a request is counted as in an entry, beside its payload and texts.

More than it takes there: an entry is made, and applied, in one turn of the loop, and small
requests take time too. So there are some thousands of them in one.
"""


_CANCELS = 4
"""What the end of a request by itself counts as, beside being admitted."""

_OF_IDS = (Acknowledge, Forget)


class Admission(NamedTuple):
    """One request that asks to be admitted. See `records.Admit` for the fields."""

    key: Key
    tenant: str
    request_id: str
    content_hash: bytes
    rows: int
    priority: int
    timeout_ms: int
    payload: bytes
    parameters: bytes
    traceparent: str

    def check(self) -> None:
        """Make sure that every replica will be able to read it; its model is known to be there.

        Raises:
            InvalidRequest: a field is not of its kind; definite.
        """
        key, traceparent = self.key, self.traceparent
        texts = self.tenant + self.request_id + key[2] + traceparent
        if not (
            0 < len(self.tenant) <= NAME_LENGTH_MAX
            and 0 < len(self.request_id) <= NAME_LENGTH_MAX
            and len(key[2]) <= TEXT_LENGTH_MAX
            and len(traceparent) <= TEXT_LENGTH_MAX
            and texts.isascii()
            and "\0" not in texts
            and type(self.rows) is type(self.priority) is type(self.timeout_ms) is int
            and 0 < self.rows <= 1 << 40
            and 0 <= self.priority <= 1 << 16
            and 0 <= self.timeout_ms <= 1 << 40
            and type(self.payload) is type(self.parameters) is type(self.content_hash) is bytes
            and len(self.payload) <= BLOB_BYTES_MAX
            and len(self.parameters) <= 1 << 20
            and len(self.content_hash) <= 64
        ):
            # Not surely: a text beyond ASCII may be as good as any other.
            check_record(_columns([self], 1, {key: 0}, {self.tenant: 0}))


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of one request that asked to be admitted, or of a record.

    Attributes:
        index: of the entry it was in.
        verdict: OK, or why not.
        message: for people; empty: nothing to say.
        value: of a request its ticket, the index that admitted it: of this entry, or
            where it is KNOWN or ENDED, of an earlier one; else what the record made.
        retry_after_ms: when to come back, where it was refused for load.
    """

    index: int
    verdict: Verdict
    message: str = ""
    value: int = 0
    retry_after_ms: int = 0


Done = Callable[[Landed | Verdicts | RaftbatchError], None]
"""Told once, as the entry is applied, or it is known that it will not be: Verdicts for columns
of ids (Cancel, Acknowledge, Forget), Landed for the rest. Called on the loop; must not raise."""


class Ask(NamedTuple):
    """Something that waits to go into an entry.

    Attributes:
        what: a request, or any other record.
        done: told.
        size: bytes that it is counted as.
        name: of a request: tenant, NUL, request id.
    """

    what: Admission | Record
    done: Done
    size: int
    name: str = ""


_ask = partial(tuple.__new__, Ask)
"""As the class itself, of a tuple, without the call by names: there are many."""


def copy_of(error: RaftbatchError) -> RaftbatchError:
    """Return an error to be raised elsewhere: each caller has one of its own."""
    return type(error)(error.message, leader=error.leader, retry_after_ms=error.retry_after_ms)


@dataclass(slots=True, eq=False)
class Group:
    """What one entry has of others, and who is told what became of it.

    Attributes:
        records: in order; an Admit of all requests comes first.
        admitting: those behind the requests of the Admit, in order.
        asking: those behind the other records, in order.
        joined: those kept aside for requests of the Admit, once the term is over: they share
            what becomes of these.
    """

    records: list[Record] = field(default_factory=list)
    admitting: list[Ask] = field(default_factory=list)
    asking: list[Ask] = field(default_factory=list)
    joined: list[Ask] = field(default_factory=list)

    def landed(self, index: int, replies: Sequence[Reply | Verdicts]) -> None:
        """Tell all what the entry did.

        Args:
            index: of the entry.
            replies: to its records, these and more.
        """
        first = 0
        if self.admitting:
            first = 1
            self._tell_admitting(index, replies[0])
        for place, (_, done, _, _) in enumerate(self.asking, first):
            reply = replies[place]
            if isinstance(reply, Verdicts):
                done(reply)
            elif reply.verdict is Verdict.NOT_LEADER:
                done(NotLeader("the entry is of a term that its proposer did not lead"))
            else:
                done(Landed(index, reply.verdict, reply.message, reply.value))

    def failed(self, error: RaftbatchError) -> None:
        """Tell all that nothing became of it, or that it is not known what."""
        for _, done, _, _ in (*self.admitting, *self.asking, *self.joined):
            done(copy_of(error))

    def _tell_admitting(self, index: int, reply: Reply | Verdicts) -> None:
        if reply.verdict or not isinstance(reply, Verdicts):
            said = "the leader had erred about what comes next: nothing was done, ask again"
            for _, done, _, _ in self.admitting:
                done(NoLeader(said))
            return
        taken = Landed(index, Verdict.OK, "", index)
        if not any(reply.verdicts):
            for _, done, _, _ in self.admitting:
                done(taken)
            return
        tickets, messages = dict(reply.tickets), dict(reply.messages)
        for place, (_, done, _, _) in enumerate(self.admitting):
            number = reply.verdicts[place]
            if not number:
                done(taken)
                continue
            verdict = Verdict(number)
            is_load = verdict in (Verdict.OVERLOADED, Verdict.QUOTA_EXCEEDED)
            retry_ms = reply.retry_after_ms if is_load else 0
            ticket, message = tickets.get(place, 0), messages.get(place, "")
            done(Landed(index, verdict, message, ticket, retry_ms))


class Inbox:
    """What waits to go into an entry of one term, in the order in which it came.

    Attributes:
        items: how many wait, those kept aside too.
        size: bytes of them.
        admissions: requests that wait for the next entry.
        uses: of those: what they are, in all, by model version, by tenant.
    """

    def __init__(self) -> None:
        self.items = self.size = self.admissions = 0
        self.uses: dict[object, Usage] = {}
        self._queue: deque[Ask] = deque()
        self._names: dict[str, list[Ask] | None] = {}
        self._counted: dict[tuple[Key, str], list[Usage]] = {}  # by what they are counted

    def __bool__(self) -> bool:
        """Whether anything waits for the next entry."""
        return bool(self._queue)

    def has(self, name: str) -> bool:
        """Return whether a request of that name waits, or is in an entry that has not landed."""
        return name in self._names

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether `has` is true of any."""
        return not self._names.keys().isdisjoint(names)

    def add_request(self, name: str, admission: Admission, payload: int, done: Done) -> None:
        """Let a request wait for the next entry, or for the other one of its name.

        Args:
            name: tenant, NUL, request id.
            admission: checked.
            payload: bytes of payload and parameters.
            done: told.
        """
        size = _size_of(admission, name, payload)
        ask = Ask(admission, done, size, name)
        self.items += 1
        self.size += size
        if name in self._names:
            aside = self._names[name]
            if aside is None:
                self._names[name] = [ask]
            else:
                aside.append(ask)
            return
        self._names[name] = None
        self._queue.append(ask)
        self._count_in((admission,), (name,), payload)

    def add_requests(
        self,
        admissions: Sequence[Admission],
        names: Sequence[str],
        payloads: Sequence[int],
        dones: Sequence[Done],
    ) -> None:
        """Let requests of one key and tenant wait for the next entry; no other has their names.

        Args:
            admissions, names, payloads, dones: of each, as of one (`add_request`).
        """
        sizes = [*map(_size_of, admissions, names, payloads)]
        self.items += len(names)
        self.size += sum(sizes)
        self._names.update(dict.fromkeys(names))
        self._queue.extend(map(_ask, zip(admissions, dones, sizes, names, strict=True)))
        self._count_in(admissions, names, sum(payloads))

    def add_record(self, record: Record, size: int, done: Done) -> None:
        """Let any other record wait for the next entry."""
        size = max(size, REQUEST_BYTES * _requests_of(record))
        self.items += 1
        self.size += size
        self._queue.append(Ask(record, done, size))

    def take(self, first: int, bytes_max: int) -> Group:
        """Take what the next entry can hold: all of it, mostly.

        Args:
            first: number of its first request.
            bytes_max: how much; one thing alone may be larger.
        """
        group = Group()
        keys: dict[Key, int] = {}
        tenants: dict[str, int] = {}
        queue, left = self._queue, bytes_max
        admissions: list[Admission] = []
        while queue:
            ask = queue[0]
            what = ask.what
            if ask.size > left and left < bytes_max:
                break
            if type(what) is Admission:
                if len(keys) == KEYS_MAX or len(tenants) == KEYS_MAX:
                    break
                keys.setdefault(what.key, len(keys))
                tenants.setdefault(what.tenant, len(tenants))
                admissions.append(what)
                group.admitting.append(ask)
            else:
                group.asking.append(ask)
                group.records.append(what)  # type: ignore[arg-type]
            queue.popleft()
            left -= ask.size
        self.items -= len(group.admitting) + len(group.asking)
        self.size -= bytes_max - left
        if admissions:
            self._count_out(admissions, group.admitting)
            group.records.insert(0, _columns(admissions, first, keys, tenants))
        return group

    def landed(self, group: Group) -> list[Ask]:
        """Return those that waited for requests of an entry of which it is known what became."""
        freed: list[Ask] = []
        for _, _, _, name in group.admitting:
            aside = self._names.pop(name)
            if aside is not None:
                freed += aside
        for ask in freed:
            self.items -= 1
            self.size -= ask.size
        return freed

    def close(self, error: RaftbatchError) -> None:
        """Tell all that wait, those kept aside too, that nothing will become of it."""
        asks = list(self._queue)
        for aside in self._names.values():
            asks += aside or ()
        self._queue.clear()
        self._names.clear()
        self.uses.clear()
        self._counted.clear()
        self.items = self.size = self.admissions = 0
        for _, done, _, _ in asks:
            done(copy_of(error))

    def _count_in(self, admissions: Sequence[Admission], names: Sequence[str], size: int) -> None:
        """Count requests of one key and tenant."""
        key, tenant, *_ = admissions[0]
        self.admissions += len(admissions)
        if (counted := self._counted.get((key, tenant))) is None:
            uses = [self.uses.setdefault(whose, Usage()) for whose in (None, key[:2], tenant)]
            counted = self._counted[key, tenant] = uses
        more = _usage_of(admissions, names, size)
        for use in counted:
            use.add_all(more)

    def _count_out(self, admissions: Sequence[Admission], asks: Sequence[Ask]) -> None:
        """Count requests no more; those of one key and tenant mostly stand together."""
        self.admissions -= len(admissions)
        self._counted.clear()
        if not self.admissions:
            self.uses.clear()
            return
        both = zip(admissions, asks, strict=True)
        for (key, tenant), run in groupby(both, lambda each: each[0][:2]):
            some, their = zip(*run, strict=True)
            size = sum([len(each.payload) + len(each.parameters) for each in some])
            less = _usage_of(some, [ask.name for ask in their], size)
            for whose in (None, key[:2], tenant):
                use = self.uses[whose]
                use.take_away(less)
                if not use.requests:
                    del self.uses[whose]


def _usage_of(admissions: Sequence[Admission], names: Sequence[str], size: int) -> Usage:
    """Return what requests of one key and tenant are; `size` of payloads and parameters in all."""
    rows = sum([each.rows for each in admissions])
    traces = [each.traceparent for each in admissions]
    return usage_of(admissions[0].key, names, traces, rows, size)


def _size_of(admission: Admission, name: str, payload: int) -> int:
    """Return what a request counts as in an entry, and where it waits for one, in bytes."""
    said = len(name) + len(admission.key[2]) + len(admission.traceparent)
    return REQUEST_BYTES + payload + said


def _requests_of(record: Record) -> int:
    """Return how many requests a record is about; 1 at least."""
    if isinstance(record, Complete):
        return max(len(record.numbers), 1)
    if isinstance(record, Cancel):
        return _CANCELS * len(record.request_id)
    return len(record.request_id) if isinstance(record, _OF_IDS) else 1


def _columns(
    admissions: Sequence[Admission], first: int, keys: dict[Key, int], tenants: dict[str, int]
) -> Admit:
    """Return the Admit of these requests: a column for each field."""
    key_of, tenant_of, *columns = zip(*admissions, strict=True)
    places = tuple([keys[each] for each in key_of]), tuple([tenants[each] for each in tenant_of])
    return Admit(first, tuple(keys), tuple(tenants), *places, *columns)
