"""A node that takes few at once: sessions are told, and nothing that the SDK says is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import grpc.aio
import pytest

from coordinator.answers import Ticket
from coordinator.api import ApiConfig
from coordinator.core.effects import Verdict
from coordinator.submission import Submission
from raftbatch.client import AsyncClient
from raftbatch.errors import InvalidRequest, RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e import scripted
from tests.e2e.forwarding import answers, submissions
from tests.e2e.scripted import ScriptedNode, run

FEW = ApiConfig(names_max=3, submissions_max=5)


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let nodes be configured so, and hold what they are asked against it, as the api does.

    Returns:
        how many ids were in each list that was refused.
    """
    refused: list[int] = []
    plain, acknowledge = scripted.configured, scripted.ScriptedApi.acknowledge
    submit = scripted.ScriptedApi.submit

    def configured(folder: Path) -> object:
        config = plain(folder)
        scheduler = dataclasses.replace(config.scheduler, api=FEW)
        return dataclasses.replace(config, scheduler=scheduler)

    async def acknowledged(
        api: scripted.ScriptedApi, names: Sequence[tuple[str, str]]
    ) -> list[Verdict | RaftbatchError]:
        if len(names) > FEW.names_max:
            refused.append(len(names))
            raise InvalidRequest(f"{len(names)} ids at once, at most {FEW.names_max}")
        return await acknowledge(api, names)

    async def submitted(
        api: scripted.ScriptedApi, asked: Sequence[Submission]
    ) -> list[Ticket | RaftbatchError]:
        if len(asked) > FEW.submissions_max:
            raise InvalidRequest(f"{len(asked)} requests at once, at most {FEW.submissions_max}")
        return await submit(api, asked)

    monkeypatch.setattr(scripted, "configured", configured)
    monkeypatch.setattr(scripted.ScriptedApi, "acknowledge", acknowledged)
    monkeypatch.setattr(scripted.ScriptedApi, "submit", submitted)
    return refused


def test_session_is_told_how_many_ids_and_takes_many_requests(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = GatewayStub(channel).Session()
        said = await session.read()
        assert said.opened.names_max == 3
        await session.write(submissions(17, want=pb.WANT_TICKET))
        assert await answers(session, 17) == dict.fromkeys(range(1, 18), 2)
        session.cancel()

    run(tmp_path, test)


@pytest.mark.parametrize("says", [True, False])
def test_no_acknowledgement_of_the_sdk_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[int], says: bool
) -> None:
    names = {f"r{n}" for n in range(20)}
    plain = pb.Opened

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        if not says:  # as an older node
            monkeypatch.setattr(pb, "Opened", lambda names_max, **rest: plain(**rest))
        async with AsyncClient(node.config.addresses.client) as client:
            await client.connect()
            for name in names:
                await client.acknowledge(name)
        assert {name for _, name in node.scripted.asked} == names
        assert bool(refused) != says

    run(tmp_path, test)
