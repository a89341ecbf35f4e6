"""What the SDK keeps while nobody answers: no more, however long that lasts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.client import background as backgrounds
from raftbatch.client.asks import Ask, Ready
from raftbatch.client.background import Background
from raftbatch.client.engine import Engine
from raftbatch.client.inputs import Encoder
from raftbatch.client.models import Models
from raftbatch.errors import OutcomeUnknown, Overloaded
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2

_CONFIG = b'{"inputs": [{"name": "text", "datatype": "BYTES", "dims": [1]}]}'


class Given:
    """An answer that is there, or not."""

    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> bool:
        """Whether it is."""
        return self.is_done

    def set_result(self, result: Any, /) -> None:
        """Take it."""

    def set_exception(self, error: BaseException, /) -> None:
        """Take an error."""


def test_what_was_given_up_is_not_kept_for_a_leader_that_never_comes() -> None:
    ready, waiting = Ready(), [Ask(Given(), f"waits {n}", b"head") for n in range(10)]
    for ask in waiting:
        ready.put(ask)
    for n in range(20_000):
        given = Given()
        ready.put(Ask(given, f"r{n}", b"head", bytes(100)))
        given.is_done = True
    assert len(ready) < 5000
    assert [ask for ask in ready.take() if not ask.answer.done()] == waiting


def test_cancels_that_no_node_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backgrounds, "_HELD_MAX", 100)

    async def main() -> None:
        background = Background(lambda: None)
        futures = [background.cancel(f"r{n}") for n in range(150)]
        with pytest.raises(OutcomeUnknown, match="r49 was not cancelled"):
            await futures[49]
        assert [each.done() for each in futures] == [True] * 50 + [False] * 100
        [control] = background.take(1, 1 << 20)
        assert control.request_ids == tuple(f"r{n}" for n in range(50, 150))
        assert len(background._unread) == len(background._cancelled) == 100
        background.close()

    asyncio.run(main())


def test_models_are_asked_for_again_where_a_node_has_too_many_calls() -> None:
    class Busy:
        """A node, as the engine and its link at once."""

        def __init__(self) -> None:
            self.refusals = 2
            self.pauses: list[float] = []

        async def link(self, limit_s: float | None) -> Busy:
            return self

        async def models(self, name: str) -> pb.ModelsReply:
            self.refusals -= 1
            if self.refusals >= 0:
                raise Overloaded("1000 calls are open", retry_after_ms=700)
            return pb.ModelsReply(models=[model_pb2.Model(name=name, version="1")])

        async def pause(self, duration_s: float) -> None:
            self.pauses.append(duration_s)

    async def main() -> None:
        busy = Busy()
        models = Models(60.0)
        await models.look_up(cast("Engine", busy), "echo", "")
        assert len(busy.pauses) == 2
        assert min(busy.pauses) > 0.7  # what the node has asked for
        await models.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("timeout_s", "submits", "waits_s", "expires_ms"),
    [
        (None, False, 14.0, 0),
        (None, True, 14.0, 0),
        (30.0, False, 25.0, 24_000),
        (3.0, False, 0.001, 1),
    ],
)
def test_what_the_settings_took_is_not_waited_for_again(
    timeout_s: float | None,
    submits: bool,
    waits_s: float,
    expires_ms: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call lasts as long as it was told, and no more: its two waits share that."""
    waited: list[float | None] = []
    asked: list[pb.Submission] = []

    async def wait(engine: Engine, ask: Ask, limit_s: float | None, is_cancelled: bool) -> Any:
        waited.append(limit_s)
        asked.append(pb.Submission.FromString(ask.head + ask.payload))
        return 1

    async def main() -> None:
        loop = asyncio.get_running_loop()
        skipped = [0.0]
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: skipped[0])

        async def look_up(engine: Engine, model: str, version: str) -> Encoder:
            skipped[0] += 6.0
            return Encoder(model_pb2.Model(name=model, version="1", config=_CONFIG))

        client = AsyncClient("127.0.0.1:1", ClientOptions(patience_s=20.0))
        monkeypatch.setattr(client._models, "look_up", look_up)
        call = client.submit if submits else client.infer
        await call("echo", "x", timeout_s=timeout_s)
        monkeypatch.setattr(loop, "time", real)
        await client.close()

    monkeypatch.setattr(Engine, "wait", wait)
    asyncio.run(main())
    assert waited == [waits_s]
    assert asked[0].timeout_ms == expires_ms
