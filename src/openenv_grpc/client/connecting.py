"""Several clients that are connected together, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol


class Connectable(Protocol):
    """A client, as far as it matters here."""

    async def connect(self) -> object:
        """Opens its session."""
        ...

    async def close(self) -> None:
        """Ends its session, if there is one."""
        ...


async def connect_all(clients: Sequence[Connectable]) -> None:
    """Connects clients at once. If one cannot be, or the wait is cancelled, it closes them all.

    Raises what the first of them raised that could not be connected.
    """
    try:
        connecting = (client.connect() for client in clients)
        for connected in await asyncio.gather(*connecting, return_exceptions=True):
            if isinstance(connected, BaseException):
                raise connected
    except BaseException:
        for client in clients:
            await client.close()
        raise
