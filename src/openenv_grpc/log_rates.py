"""How many log lines each peer may cause, so that nobody fills a disk from afar."""

from __future__ import annotations

import logging
import time

from openenv_grpc.events import facts_of, log_event
from openenv_grpc.rates import PeerRates, remote_address

logger = logging.getLogger(__name__)


class Dropped:
    """How many lines were dropped in this process, whose logs are one."""

    lines = 0


dropped = Dropped()


class PeerLogLimit(logging.Filter):
    """Drops events of a peer that causes too many, but for one line which says so."""

    def __init__(self, per_minute: float) -> None:
        super().__init__()
        self._rates = PeerRates(per_minute, clock=time.monotonic)
        self._silenced: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tells whether a record is to be written."""
        peer = facts_of(record).get("peer")
        if not isinstance(peer, str):
            return True
        address = remote_address(peer)
        if not self._rates.take(peer):
            self._silenced.discard(address)
            return True
        dropped.lines += 1
        if address not in self._silenced:
            self._silenced.add(address)
            log_event(logger, logging.WARNING, "dropping log lines of a peer", address=address)
        return False
