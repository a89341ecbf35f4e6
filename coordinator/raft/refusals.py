"""Who was refused, by us or by them, and why: said once in the log, kept for whoever asks.

What lives here: the last reason for each peer, and the rule that a reason is
logged when it is new and not each time it comes up. What must never live here:
a decision to refuse. Called by: `door`, `transport`; read by `raftbatch status`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

_LOG = logging.getLogger(__name__)

PEERS_MAX = 64
"""Names are what strangers say they are: beyond so many, the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no connection to a peer.

    Attributes:
        reason: in a few words with underscores.
        text: a sentence for the operator: what is wrong, and what to do.
        times: how often in a row.
    """

    reason: str
    text: str
    times: int


class Refusals:
    """The last refusal of each peer that has not been connected since.

    Attributes:
        by_peer: by the name or address under which the peer is known.
    """

    def __init__(self) -> None:
        self.by_peer: dict[str, Refusal] = {}

    def note(self, peer: str, reason: str, text: str) -> None:
        """Take in a refusal; log it where it is not the last one again."""
        last = self.by_peer.pop(peer, None)
        if last is not None and (last.reason, last.text) == (reason, text):
            self.by_peer[peer] = Refusal(reason, text, last.times + 1)
            return
        self.by_peer[peer] = Refusal(reason, text, 1)
        while len(self.by_peer) > PEERS_MAX:
            del self.by_peer[next(iter(self.by_peer))]
        fields = {"peer": peer, "reason": reason, "text": text}
        _LOG.warning("peer.refused", extra={"fields": fields})

    def clear(self, peer: str) -> None:
        """Take in that the peer is connected."""
        self.by_peer.pop(peer, None)
