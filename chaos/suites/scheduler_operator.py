"""The operator of the scheduler suite: models, policy and who leads change while it runs.

What lives here: what an operator does. What must never live here: when faults strike
(`chaos.nemesis`). Called by: `chaos.suites.scheduler`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random

from chaos.suites.scheduler_calling import Caller
from chaos.suites.scheduler_clients import Clients
from chaos.suites.scheduler_fleet import Executors
from chaos.suites.scheduler_node import Node
from chaos.suites.scheduler_options import Options
from chaos.worlds.calls import Act, Calls, Lost
from chaos.worlds.loop import VirtualLoop
from coordinator.api import Api
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.ids import NodeId
from raftbatch.settings import Model

_NAME = "operator"
_TRIES = 5
_VERSIONS_MAX = 4


class Operator:
    """See the module's docstring.

    Args:
        loop: of the run.
        calls: of the run.
        nodes: those that live, by id.
        leader: who leads, as far as anybody can tell.
        options: of the seed.
        clients, executors: told of model versions that come and go.
        rng: all is drawn from it.

    Attributes:
        counts: what was done.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        calls: Calls[Api],
        nodes: dict[NodeId, Node],
        leader: Callable[[], NodeId | None],
        options: Options,
        clients: Clients,
        executors: Executors,
        rng: Random,
    ) -> None:
        self.counts: Counter[str] = Counter(changes=0, transfers=0, restarts=0)
        self._loop = loop
        self._nodes = nodes
        self._leader = leader
        self._options = options
        self._clients = clients
        self._executors = executors
        self._rng = rng
        names = [NodeId(f"n{number}") for number in range(1, options.nodes + 1)]
        self._caller = Caller(calls, _NAME, names, rng)
        self._process = loop.spawn(_NAME)
        self._versions = len(options.models)
        self._ready = list(map(_id, options.models))  # what executors are to have ready
        self._is_over = False

    def begin(self) -> None:
        """Change things from now on."""
        if self._options.changes_per_s:
            self._later(self._options.changes_per_s, self._change)
        if self._options.transfers_per_s and self._options.nodes > 1:
            self._later(self._options.transfers_per_s, self._transfer)
        if self._options.restarts_per_s:
            self._later(self._options.restarts_per_s, self._restart)

    def end(self) -> None:
        """Change nothing more."""
        self._is_over = True

    def _later(self, per_s: float, act: Callable[[], None]) -> None:
        self._loop.after(self._rng.expovariate(per_s), self._now, per_s, act)

    def _now(self, per_s: float, act: Callable[[], None]) -> None:
        if not self._is_over:
            act()
            self._later(per_s, act)

    # Nodes.

    def _transfer(self) -> None:
        leader = self._leader()
        node = None if leader is None else self._nodes.get(leader)
        if node is None:
            return
        heir = self._rng.choice([each for each in self._executors.nodes if each != leader])

        async def move() -> None:
            try:
                self.counts["transfers"] += await node.log.transfer(heir)
            except (RaftbatchError, Fatal):
                return

        node.world.process.call(self._begin, move())

    def _restart(self) -> None:
        """Stop a node in good order; whoever starts nodes that are down starts it again."""
        nodes = [node for node in self._nodes.values() if not node.world.process.paused]
        if not nodes:
            return
        node = self._rng.choice(nodes)
        others = [each for each in self._executors.nodes if each != node.node]
        heir = self._rng.choice(others) if others else None

        async def stop() -> None:
            await node.stop(heir)
            self.counts["restarts"] += 1
            self._loop.after(0.0, self._kill, node)

        node.world.process.call(self._begin, stop())

    def _kill(self, node: Node) -> None:
        if node.world.alive:
            node.world.machine.kill(power=False)

    # Models and policy.

    def _change(self) -> None:
        change = self._rng.choice((self._put, self._put, self._delete, self._limit, self._release))
        self._process.call(self._begin, change())

    async def _put(self) -> None:
        """Put another version of a model, or other settings of one that is there."""
        model = self._rng.choice(self._clients.models)
        is_new = self._rng.random() < 0.5 and len(self._clients.models) < _VERSIONS_MAX
        if is_new:
            self._versions += 1
            model = replace(model, version=str(self._versions))
        changed = replace(
            model,
            max_queue_delay_microseconds=self._rng.choice((0, 5_000, 50_000)),
            priority_aging_ms=self._rng.choice((0, 50, 1000)),
            seal_when_idle=self._rng.random() < 0.3,
        )
        is_done = await self._ask("put_model", lambda api: api.put_model(changed))
        if _id(changed) not in self._ready:
            # It is there now, or may be: also one that was deleted while this was under way.
            self._ready.append(_id(changed))
            self._executors.put_models(tuple(self._ready))
        models = self._clients.models
        if is_done and is_new:
            self._clients.models = [*models, changed]
        elif is_done:
            self._clients.models = [
                changed if _id(each) == _id(changed) else each for each in models
            ]

    async def _delete(self) -> None:
        """Delete a version, not the last one."""
        if len(self._clients.models) < 2:
            return
        model = self._rng.choice(self._clients.models)
        # Nobody asks for it from now on. Where it is not known what became of the call,
        # executors stay ready for what may wait for it.
        self._clients.models = [each for each in self._clients.models if _id(each) != _id(model)]
        if await self._ask("delete_model", lambda api: api.delete_model(model.name, model.version)):
            self._ready = [each for each in self._ready if each != _id(model)]
            self._executors.put_models(tuple(self._ready))

    async def _limit(self) -> None:
        """Put the policy with other limits."""
        policy = self._options.policy
        most = self._rng.choice((policy.requests_waiting_max, 10, 50))
        changed = replace(
            policy,
            requests_waiting_max=most,
            expire_per_entry_max=self._rng.choice((1, 16, 256)),
            quarantine_requests_max=self._rng.choice((1, 100)),
        )
        await self._ask("put_policy", lambda api: api.put_policy(changed))

    async def _release(self) -> None:
        """Release what is in quarantine, as a node knows it."""
        some = next(iter(self._nodes.values()), None)
        numbers = () if some is None else tuple(some.replica.state.quarantine)[:3]
        if numbers:
            await self._ask("release", lambda api: api.release_quarantined(numbers))

    async def _ask(self, what: str, act: Act[Api, object]) -> bool:
        """Ask a few times; return whether it is known to have been done."""
        for _ in range(_TRIES):
            try:
                await self._caller.ask(what, act)
            except (RaftbatchError, Lost) as error:
                await asyncio.sleep(self._caller.wait_s(error))
            else:
                self.counts["changes"] += 1
                return True
        return False

    def _begin(self, doing: Coroutine[None, None, None]) -> None:
        self._loop.create_task(doing)


def _id(model: Model) -> tuple[str, str]:
    return model.name, model.version
