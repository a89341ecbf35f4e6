"""Clients that append for as long as they are let, and note what became of each entry.

What lives here: threads that follow leader hints. What must never live here: a
check (`history`). Called by: end-to-end and chaos tests.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Self

import grpc

from raftbatch.v1 import log_pb2
from raftbatch.v1.log_pb2_grpc import LogStub
from tests.e2e.history import History, Write

ANSWER_S = 5.0
"""A node that stands still does not answer: what was asked is unknown then."""

_PAUSE_S = 0.02  # between two messages, and where no node is known to lead: some load is enough
_ENTRIES_MAX = 20
_SIZES = (20, 200, 4000)


class Clients:
    """See the module's docstring. Leaving it lets them end, and waits for them.

    Args:
        addresses: of the nodes' client ports.
        history: is told everything.
        count: of clients.
        seed: of what they write.
        answer_s: how long each waits for an answer.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        history: History,
        count: int,
        seed: int,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._answer_s = answer_s
        self._addresses = list(addresses.values())
        self._history = history
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number, Random(f"{seed} {number}")))
            for number in range(count)
        ]

    def __enter__(self) -> Self:
        """Let them begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let them end."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, client: int, rng: Random) -> None:
        address, made = rng.choice(self._addresses), 0
        while not self._over.is_set():
            writes = []
            for _ in range(rng.randint(1, _ENTRIES_MAX)):
                made += 1
                data = b"%d-%d " % (client, made)
                writes.append(self._history.invoke(data.ljust(rng.choice(_SIZES), b".")))
            hint = self._append(address, writes)
            if not hint:
                self._over.wait(_PAUSE_S)
            if hint is None:
                continue
            address = hint or rng.choice(self._addresses)

    def _append(self, address: str, writes: list[Write]) -> str | None:
        """Append; return None if all went well, else whom to ask next, or nothing."""
        request = log_pb2.AppendRequest(
            entries=[
                log_pb2.NumberedEntry(number=number, data=write.data)
                for number, write in enumerate(writes)
            ]
        )
        answered, hint = 0, ""
        try:
            with grpc.insecure_channel(address) as channel:
                for reply in LogStub(channel).Append(iter([request]), timeout=self._answer_s):
                    for result in reply.results:
                        answered += 1
                        hint = _note(writes[result.number], result) or hint
        except grpc.RpcError:
            return ""  # what has no result stays unknown
        assert answered == len(writes), "every entry gets a result, unless the stream breaks"
        return None if all(write.outcome == "ok" for write in writes) else hint


def _note(write: Write, result: log_pb2.AppendResult) -> str:
    """Note a result; return the leader that it names."""
    assert write.outcome == "info", "one result each"
    if result.WhichOneof("outcome") == "index":
        write.outcome, write.index = "ok", result.index
        return ""
    if result.error.definite:
        write.outcome = "fail"
    leader: str = result.error.leader
    return leader
