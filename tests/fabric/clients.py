"""Clients that append while the network breaks, and what they may expect of the logs afterwards.

What lives here: one client, what it was told, and holding logs against it. Called by: tests of
this folder.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from raftbatch.v1 import log_pb2
from raftbatch.v1.log_pb2_grpc import LogStub
from tests.e2e.processes import run

_ENTRIES = 5  # of one call
_CALL_S = 2.0  # then a client gives up, and does not know
_PAUSE_S = 0.02  # where there is no leader


@dataclass
class Told:
    """What clients were told of their entries, each of which is sent once.

    Attributes:
        acknowledged: where each stands.
        refused: definitely not appended.
        unknown: nobody said.
    """

    acknowledged: dict[bytes, int] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)


class Client(threading.Thread):
    """Appends to whoever it takes for the leader, until it is told to stop.

    Args:
        name: begins its entries.
        addresses: of the nodes' client ports.
    """

    def __init__(self, name: str, addresses: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self.told = Told()
        self.failure: BaseException | None = None
        self._word = name
        self._addresses = list(addresses.values())
        self._stopping = threading.Event()
        self._count = 0

    def run(self) -> None:
        """Append; keep what goes wrong for `stop` to raise."""
        channels = {address: grpc.insecure_channel(address) for address in self._addresses}
        target = self._addresses[0]
        try:
            while not self._stopping.is_set():
                hint = self._append(LogStub(channels[target]))
                if hint is not None:
                    self._stopping.wait(_PAUSE_S)
                    after = self._addresses.index(target) + 1
                    target = hint or self._addresses[after % len(self._addresses)]
        except BaseException as error:
            self.failure = error
            raise
        finally:
            for channel in channels.values():
                channel.close()

    def stop(self) -> Told:
        """Let it end; return what it was told."""
        self._stopping.set()
        self.join(10 * _CALL_S)
        assert not self.is_alive()
        assert self.failure is None, self.failure
        return self.told

    def _append(self, stub: LogStub) -> str | None:
        """Append some; return None if all is well, else whom to ask next, if anybody knows."""
        told = self.told
        sent = {}
        for number in range(_ENTRIES):
            self._count += 1
            sent[number] = f"{self._word} {self._count}".encode()
        entries = [log_pb2.NumberedEntry(number=each, data=data) for each, data in sent.items()]
        hint: str | None = None
        try:
            request = log_pb2.AppendRequest(entries=entries)
            for reply in stub.Append(iter([request]), timeout=_CALL_S):
                for result in reply.results:
                    data = sent.pop(result.number)
                    if result.WhichOneof("outcome") == "index":
                        told.acknowledged[data] = result.index
                    else:
                        hint = result.error.leader
                        (told.refused if result.error.definite else told.unknown).add(data)
        except grpc.RpcError:
            hint = ""
        told.unknown.update(sent.values())
        return hint


def log_of(directory: str, index_max: int) -> dict[int, bytes]:
    """Return the entries in a data directory whose node has ended, by index, up to that one."""
    done = run("log", "dump", directory, "--json", "--data")
    assert done.returncode == 0, done.stderr
    log: dict[int, bytes] = {}
    for line in done.stdout.splitlines():
        item = json.loads(line)
        if item["type"] != "record":
            continue
        if item["kind"] in ("keep", "reset"):
            floor = item["index"] if item["kind"] == "keep" else 0
            log = {index: data for index, data in log.items() if index <= floor}
        elif item["kind"] in ("entry", "config"):
            log[item["index"]] = base64.b64decode(item["data"])
    return {index: data for index, data in log.items() if index <= index_max}


def check(told: Told, log: Mapping[int, bytes]) -> list[str]:
    """Complain about each promise that this log does not keep. Total. Deterministic."""
    complaints = []
    places: dict[bytes, list[int]] = {}
    for index, data in log.items():
        places.setdefault(data, []).append(index)
    for data, index in told.acknowledged.items():
        if places.get(data) != [index]:
            complaints.append(f"{data!r} acknowledged at {index}, is at {places.get(data)}")
    for data in sorted(told.refused):
        if data in places:
            complaints.append(f"{data!r} refused for good, is at {places[data]}")
    for data in sorted(told.unknown):
        if len(places.get(data, ())) > 1:
            complaints.append(f"{data!r} sent once, is at {places[data]}")
    return complaints
