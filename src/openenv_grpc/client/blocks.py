"""`with` and `async with` for clients: entering connects, leaving closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import NoReturn, Self


class AsyncBlock(ABC):
    """A client for `async with`."""

    @abstractmethod
    async def connect(self) -> Self:
        """Connects."""

    @abstractmethod
    async def close(self) -> None:
        """Ends everything."""

    async def __aenter__(self) -> Self:
        """Connects. Stops the provider if that fails, since nobody will leave the block."""
        try:
            return await self.connect()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes."""
        await self.close()

    def __enter__(self) -> NoReturn:
        """Refuses a plain `with`. Raises `TypeError`."""
        name = type(self).__name__
        raise TypeError(
            f"{name} is used by `async with {name}(...) as client`; without an event loop by "
            f"`with {name}(...).sync() as client`"
        )

    def __exit__(self, *_: object) -> None:  # noqa: B027  # not for subclasses to fill in
        """Is never reached; a plain `with` asks for it first."""


class Block(ABC):
    """A client for `with`."""

    @abstractmethod
    def connect(self) -> Self:
        """Connects."""

    @abstractmethod
    def close(self) -> None:
        """Ends everything."""

    def __enter__(self) -> Self:
        """Connects. Stops the provider if that fails, since nobody will leave the block."""
        try:
            return self.connect()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes."""
        self.close()
