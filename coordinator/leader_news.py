"""What a node's log file says of who leads: one line for each change that this node learns of.

    leadership.gained    this node leads a term
    leadership.lost      it does no more; with the leader that it knows of, if any
    leader.changed       another node leads, or the same one in a later term

What lives here: that. What must never live here: what follows from it (`leader`). Called by:
the composition root, which lets the log call `look`. One thread: the loop's.
"""

from __future__ import annotations

import logging
from typing import Protocol

from coordinator.raft.standing import Role
from raftbatch.errors import Fatal
from raftbatch.ids import Identity, NodeId
from raftbatch.logs import fields

_LOG = logging.getLogger(__name__)


class Log(Protocol):
    """What is looked at of a `ReplicatedLog`; see there."""

    @property
    def failure(self) -> Fatal | None:
        """Why the log has ended; None while it lives."""
        ...

    @property
    def identity(self) -> Identity:
        """Whose log it is."""
        ...

    @property
    def role(self) -> Role:
        """This node's role."""
        ...

    @property
    def term(self) -> int:
        """The current term."""
        ...

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as this node knows; perhaps itself."""
        ...


class LeaderNews:
    """See the module's docstring.

    Args:
        log: that is looked at.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._led = 0  # the term that this node leads; 0: none
        self._told: tuple[NodeId, int] | None = None  # the last leader that was not this node

    def look(self) -> None:
        """Say what has changed since the last look."""
        log = self._log
        own, leader = log.identity.node_id, log.leader
        leads = log.failure is None and log.role is Role.LEADER
        led, self._led = self._led, log.term if leads else 0
        if led and led != self._led:
            known = "" if leader in (None, own) else str(leader)
            _LOG.info("leadership.lost", extra=fields(node=own, term=led, leader=known))
        if self._led and led != self._led:
            _LOG.info("leadership.gained", extra=fields(node=own, term=self._led))
        if leader is not None and leader != own and self._told != (leader, log.term):
            self._told = leader, log.term
            _LOG.info("leader.changed", extra=fields(node=own, term=log.term, leader=leader))
