"""First start: what is answered by a node that gives up, and when."""

from __future__ import annotations

from asyncio import Future

from coordinator.raft.greeting import Adopt, Reply, Request
from raftbatch.ids import NodeId
from tests.unit.founding_scene import N1, N2, N3, begin, die_with_plan


def test_node_that_must_join_goes_on_answering_for_a_moment() -> None:
    """Its first answer is lost; without another the founder would wait for it for ever."""
    with begin() as scene:
        die_with_plan(scene)
        scene.start(N1, N2, N3)
        scene.run(5)
        assert not scene.world.is_up(N1)
        scene.world.kill(N3, power=False)
        scene.world.wipe(N3)
        scene.start(N3)
        lost: list[Request] = []
        deliver = scene.world._deliver

        def once(asker: NodeId, asked: NodeId, request: Request, answer: Future[Reply]) -> None:
            if asked == N3 and isinstance(request, Adopt) and not lost:
                lost.append(request)
                answer.set_exception(ConnectionResetError())
                answer = scene.loop.create_future()
            deliver(asker, asked, request, answer)

        scene.world._deliver = once  # type: ignore[method-assign]
        scene.start(N1)
        scene.run(10)
        assert len(lost) == 1
        assert "start it with --join" in scene.says(N3) or "serve --node" in scene.says(N3)
        assert scene.serving() == [N1, N2]
