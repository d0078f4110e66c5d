"""How often a peer may open sessions."""

from __future__ import annotations

from openenv_grpc.engine import capacity
from openenv_grpc.engine.clock import Clock
from openenv_grpc.metrics import Metrics
from openenv_grpc.rates import PeerRates


class OpenRate:
    """Refuses openings that come too often; none if any number may come."""

    def __init__(self, per_minute: float | None, clock: Clock, metrics: Metrics) -> None:
        self._rates = None if per_minute is None else PeerRates(per_minute, clock=clock.time)
        self._metrics = metrics

    def check(self, peer: str) -> None:
        """Counts an opening. Raises `SessionCapacityError` if it comes too early."""
        delay_s = 0.0 if self._rates is None else self._rates.take(peer)
        if delay_s:
            self._metrics.opens_limited += 1
            raise capacity.too_often(delay_s)
