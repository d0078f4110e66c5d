"""How often each peer may do a thing: token buckets, by address."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

MAX_PEERS = 10_000
"""Addresses that are remembered; those that were not seen for longest begin anew."""


class PeerRates:
    """Each peer may do a number of things at once, and as many in every minute.

    Peers on this machine may do any number.
    """

    def __init__(self, per_minute: float, *, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, when

    def take(self, peer: str) -> float:
        """Takes one; returns 0, or in how many seconds there will be one to take."""
        address = remote_address(peer)
        if not address:
            return 0.0
        now = self._clock()
        tokens, seen = self._buckets.pop(address, (self._per_minute, now))
        tokens = min(self._per_minute, tokens + (now - seen) * self._per_minute / 60)
        taken = tokens >= 1
        self._buckets[address] = (tokens - taken, now)
        if len(self._buckets) > MAX_PEERS:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - tokens) * 60 / self._per_minute


@lru_cache(maxsize=1024)  # by address and port: of those that connected last
def remote_address(peer: str) -> str:
    """Returns the address of a peer, as gRPC or HTTP names it; empty if it is on this machine."""
    kind, _, rest = peer.partition(":")
    text = unquote(rest.rpartition(":")[0]).strip("[]") if kind in ("ipv4", "ipv6") else peer
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # a Unix socket, or something of this process
        return ""
    return "" if address.is_loopback else str(address)
