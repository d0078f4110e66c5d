"""Models of the packages `mcp` and `fastmcp`: written as MCP does, and made of what is answered."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Awaitable, Callable
from typing import Any

from openenv_grpc.types import JsonValue

Answers = Callable[[str, dict[str, JsonValue]], Awaitable[JsonValue]]
"""Called with a server's request, method and params; returns the result, or raises."""

_FAILED = -32000


def major_version(package: str) -> int:
    """Returns the major version of a package that is installed."""
    return int(importlib.metadata.version(package).partition(".")[0])


def dump(model: Any) -> dict[str, JsonValue]:
    """Writes one of their models as MCP does: both majors of the packages agree there."""
    if isinstance(model, dict):
        return model
    dumped: dict[str, JsonValue] = model.model_dump(mode="json", by_alias=True)
    return dumped


class Asked:
    """Answers what a server asks its client, by models of its package."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._types = importlib.import_module(
            "mcp_types" if major_version("mcp") >= 2 else "mcp.types"
        )

    def callbacks(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Returns what clients of `mcp` take. An error is an answer there."""
        return {
            "elicitation_callback": self._told_of_errors(self._elicit),
            "sampling_callback": self._told_of_errors(self._sample),
            "list_roots_callback": self._told_of_errors(self._roots),
        }

    async def elicit_of_fastmcp(
        self, message: str, response_type: object, params: Any, context: object
    ) -> Any:
        """Asks for a form, as `fastmcp` wants it. Raises what `Answers` raises."""
        result = await self._asked("elicitation/create", params)
        module = importlib.import_module("fastmcp.client.elicitation")
        return module.ElicitResult(action=result["action"], content=result.get("content"))

    async def sample_of_fastmcp(self, messages: object, params: Any, context: object) -> Any:
        """Asks a model, as `fastmcp` wants it. Raises what `Answers` raises."""
        return await self._sample(context, params)

    async def roots_of_fastmcp(self, context: object) -> list[Any]:
        """Asks for roots, as `fastmcp` wants it. Raises what `Answers` raises."""
        return list((await self._roots(context)).roots)

    async def _elicit(self, context: object, params: Any) -> Any:
        result = await self._asked("elicitation/create", params)
        return self._types.ElicitResult.model_validate(result)

    async def _sample(self, context: object, params: Any) -> Any:
        result = await self._asked("sampling/createMessage", params)
        return self._types.CreateMessageResult.model_validate(result)

    async def _roots(self, context: object) -> Any:
        return self._types.ListRootsResult.model_validate(await self._answers("roots/list", {}))

    async def _asked(self, method: str, params: Any) -> JsonValue:
        plain = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        left_out = ("_meta", "task")
        return await self._answers(
            method, {name: value for name, value in plain.items() if name not in left_out}
        )

    def _told_of_errors(
        self, answer: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def answer_or_error(*arguments: Any) -> Any:
            try:
                return await answer(*arguments)
            except Exception as error:  # whatever it is, the server is to hear of it
                return self._types.ErrorData(code=_FAILED, message=str(error))

        return answer_or_error
