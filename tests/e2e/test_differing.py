"""A real node whose replica is not what the others' are stops, says so, and comes back."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import grpc.aio
import pytest

from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.executors import CALL_S, ELSEWHERE, Cluster
from tests.e2e.processes import LIMIT_S, run

ERRS = "n2"
MODELS = "[models.idle]\n"
PROGRAM = (sys.executable, "-m", "tests.e2e.differing")
_REQUESTS_MAX = 500


async def _submit(cluster: Cluster, request_id: str) -> int:
    """Have a request taken in by whoever leads; return the index of its ticket."""

    async def call(channel: grpc.aio.Channel) -> pb.SubmitResult:
        asked = pb.Submission(request_id=request_id, model="idle", rows=1, payload=b"x")
        request = pb.SubmitRequest(submissions=[asked])
        reply = await GatewayStub(channel).Submit(request, timeout=CALL_S)
        result: pb.SubmitResult = reply.results[0]
        return result

    while True:
        result = await cluster.ask(call)
        if result.HasField("ticket"):
            return result.ticket.index
        assert result.error.slug in ELSEWHERE, result.error
        await cluster.turn_to(result.error.leader)


async def _submit_until_it_stops(served: ServedCluster) -> dict[str, int]:
    """Submit one request after another; return the ticket of each."""
    cluster = Cluster(served.clients)
    tickets: dict[str, int] = {}
    try:
        async with asyncio.timeout(LIMIT_S):
            while served.processes[ERRS].is_up:
                assert len(tickets) < _REQUESTS_MAX, "it goes on"
                request_id = f"r{len(tickets)}"
                tickets[request_id] = await _submit(cluster, request_id)
    finally:
        await cluster.close()
    return tickets


async def _known(served: ServedCluster, node: str, tickets: dict[str, int]) -> None:
    """Expect that a node knows each request, by its ticket."""
    cluster = Cluster(served.clients)
    try:
        stub = GatewayStub(cluster.channel(served.clients[node]))
        for request_id, index in tickets.items():
            reply = await stub.Await(
                pb.AwaitRequest(request_id=request_id, index=index, wait_ms=0), timeout=CALL_S
            )
            assert (reply.ticket.index, reply.HasField("outcome")) == (index, False)
    finally:
        await cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("role", ["follower", "leader"])
def test_node_that_differs_stops_and_the_others_go_on(tmp_path: Path, role: str) -> None:
    with ServedCluster(tmp_path, settings=MODELS, replica="scheduler") as served:
        served.programs[ERRS] = PROGRAM
        served.start_all("--bootstrap")
        leader = served.leader()
        if (leader == ERRS) != (role == "leader"):
            heir = ERRS if role == "leader" else "n1"
            done = run("transfer", heir, "--address", served.clients[leader])
            assert done.returncode == 0, done.stderr
            assert served.leader() == heir
        tickets = asyncio.run(_submit_until_it_stops(served))

        process = served.processes[ERRS]
        assert process.ended() == 1
        assert len(process.logged("digest.erred")) == 1
        assert f"the digest of {ERRS} is " in process.said
        assert "that of n1, n3, a majority of the voters, is " in process.said
        assert f"then empty it, and start {ERRS} with --join" in process.said
        assert "Traceback" not in process.said
        assert len(process.logged("leadership.moved")) == (role == "leader")

        assert served.leader() in ("n1", "n3")
        served.agree("n1", "n3")
        for node in ("n1", "n3"):
            asyncio.run(_known(served, node, tickets))
            served.until(lambda: _have_agreed(served, node), f"agreement of {node}")  # noqa: B023

        shutil.move(served.data(ERRS), tmp_path / "kept")  # as it was told
        del served.programs[ERRS]
        served.start(ERRS, "--join")
        served.ready(ERRS)
        served.until(lambda: _is_voter(served), f"promotion of {ERRS}")
        served.agree()


def _have_agreed(served: ServedCluster, node: str) -> bool:
    return served.heard(node).counters["digest_agreed_total"] > 0


def _is_voter(served: ServedCluster) -> bool:
    leading = [each for each in served.statuses().values() if each.role == "leader"]
    return any(
        member.node_id == ERRS and member.rank == "voter"
        for status in leading
        for member in status.members
    )
