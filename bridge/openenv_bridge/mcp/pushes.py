"""What a client is told outside of its calls: that lists and resources are not as they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass

from openenv_bridge.mcp.messages import notification
from openenv_grpc.operations import Operation
from openenv_grpc.tools import Change
from openenv_grpc.types import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a client wants to be told."""

    lists: Collection[str] = ("tools", "prompts", "resources")
    uris: Collection[str] = ()
    """Of resources. Whoever has it may change it."""


def _never(operation: Operation) -> bool:
    return False


class Pushes:
    """Tells one client of one session. Implements `Follower`.

    What is told twice before the client has taken it is told once.
    """

    def __init__(
        self,
        wishes: Wishes,
        *,
        meta: dict[str, JsonValue] | None = None,
        is_own: Callable[[Operation], bool] = _never,
    ) -> None:
        """`meta` goes along with all; `is_own` tells whether a call's own stream tells of it."""
        self._wishes = wishes
        self._meta = meta
        self._is_own = is_own
        self._untold: dict[bytes, None] = {}
        self._news = asyncio.Event()
        self._ended = False

    def changed(self, change: Change, operation: Operation) -> None:
        """See `Follower`."""
        if change.listed is not None:
            if change.listed in self._wishes.lists:
                self._tell(f"notifications/{change.listed}/list_changed", {})
        elif change.uri in self._wishes.uris:
            self._tell("notifications/resources/updated", {"uri": change.uri})

    def acted(self, operation: Operation) -> None:
        """See `Follower`. Any act may have changed any resource."""
        if self._is_own(operation):
            return
        for uri in sorted(self._wishes.uris):
            self._tell("notifications/resources/updated", {"uri": uri})

    def ended(self) -> None:
        """See `Follower`. Nothing more is told."""
        self._ended = True
        self._news.set()

    def _tell(self, method: str, params: dict[str, JsonValue]) -> None:
        if self._meta is not None:
            params = {**params, "_meta": self._meta}
        self._untold[notification(method, params)] = None
        self._news.set()

    async def told(self) -> AsyncGenerator[bytes, None]:
        """Yields notifications as they come, until nothing more is told."""
        while True:
            await self._news.wait()
            self._news.clear()
            untold, self._untold = self._untold, {}
            for content in untold:
                yield content
            if self._ended:
                return
