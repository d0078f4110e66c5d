"""Whoever starts a server for a client: the two shapes that the reference's providers have."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from openenv_grpc.errors import InvalidRequestError

READY_TIMEOUT_S = 120.0
"""How long a started server may take until it answers."""


@runtime_checkable
class ContainerProvider(Protocol):
    """Starts servers in containers. Its methods block."""

    def start_container(self) -> str:
        """Starts the server and returns its base URL."""
        ...

    def wait_for_ready(self, base_url: str, timeout_s: float = ...) -> None:
        """Waits until the server answers. Raises if it does not."""
        ...

    def stop_container(self) -> None:
        """Stops the server."""
        ...


@runtime_checkable
class RuntimeProvider(Protocol):
    """Starts servers as processes. Its methods block."""

    def start(self) -> str:
        """Starts the server and returns its base URL."""
        ...

    def wait_for_ready(self, timeout_s: float = ...) -> None:
        """Waits until the server answers. Raises if it does not."""
        ...

    def stop(self) -> None:
        """Stops the server."""
        ...


Provider = ContainerProvider | RuntimeProvider


async def start(provider: Provider) -> str:
    """Starts a provider's server, waits until it answers, and returns its base URL.

    Raises:
        InvalidRequestError: its start needs arguments, which nobody has given here.
    """
    begin = provider.start_container if isinstance(provider, ContainerProvider) else provider.start
    _check_needs_nothing(begin)
    base_url = await asyncio.to_thread(begin)
    try:
        if isinstance(provider, ContainerProvider):
            await asyncio.to_thread(provider.wait_for_ready, base_url, READY_TIMEOUT_S)
        else:
            await asyncio.to_thread(provider.wait_for_ready, READY_TIMEOUT_S)
    except BaseException:
        await stop(provider)
        raise
    return base_url


async def stop(provider: Provider) -> None:
    """Stops a provider's server."""
    end = provider.stop_container if isinstance(provider, ContainerProvider) else provider.stop
    await asyncio.to_thread(end)


def _check_needs_nothing(begin: Callable[[], str]) -> None:
    try:
        inspect.signature(begin).bind()
    except TypeError as error:
        raise InvalidRequestError(
            f"the provider cannot be started without arguments: {error}. Start it yourself and "
            "give the client its base_url."
        ) from error
