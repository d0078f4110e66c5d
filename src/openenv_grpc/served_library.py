"""The resources and prompts of an environment and of its MCP server, together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from openenv_grpc.mcp_servers import ServerSession
from openenv_grpc.tools import Library, PromptAnswer, PromptInfo, ResourceList, ResourceRead
from openenv_grpc.tools.library import Run
from openenv_grpc.types import JsonValue

FindSession = Callable[[], Awaitable[ServerSession | None]]
"""Returns the session with the server; `None` where there is no server."""


class ServedLibrary:
    """The server's resources and prompts first, then those of the class, which hide the server's.

    Implements `Offers`.
    """

    def __init__(self, owner: object, run: Run, find_session: FindSession) -> None:
        self._own = Library(owner, run)
        self._run = run
        self._find_session = find_session

    def list_resources(self) -> ResourceList:
        """See `Offers`."""
        served: ResourceList = self._run(self._list_served_resources())
        own = self._own.list_resources()
        hidden = {each.uri for each in (*own.resources, *own.templates)}
        return ResourceList(
            resources=[each for each in served.resources if each.uri not in hidden] + own.resources,
            templates=[each for each in served.templates if each.uri not in hidden] + own.templates,
        )

    async def _list_served_resources(self) -> ResourceList:
        session = await self._find_session()
        return ResourceList() if session is None else await session.list_resources()

    def read_resource(self, uri: str) -> ResourceRead:
        """See `Offers`."""
        if self._own.find_resource(uri) is None:
            read: ResourceRead | None = self._run(self._read_served(uri))
            if read is not None:
                return read
        return self._own.read_resource(uri)

    async def _read_served(self, uri: str) -> ResourceRead | None:
        session = await self._find_session()
        return None if session is None else await session.read_resource(uri)

    def list_prompts(self) -> list[PromptInfo]:
        """See `Offers`."""
        served: list[PromptInfo] = self._run(self._list_served_prompts())
        shown = [prompt for prompt in served if not self._own.has_prompt(prompt.name)]
        return shown + self._own.list_prompts()

    async def _list_served_prompts(self) -> list[PromptInfo]:
        session = await self._find_session()
        return [] if session is None else await session.list_prompts()

    def get_prompt(self, name: str, arguments: Mapping[str, JsonValue]) -> PromptAnswer:
        """See `Offers`."""
        if not self._own.has_prompt(name):
            answer: PromptAnswer | None = self._run(self._get_served(name, arguments))
            if answer is not None:
                return answer
        return self._own.get_prompt(name, arguments)

    async def _get_served(
        self, name: str, arguments: Mapping[str, JsonValue]
    ) -> PromptAnswer | None:
        session = await self._find_session()
        return None if session is None else await session.get_prompt(name, arguments)
