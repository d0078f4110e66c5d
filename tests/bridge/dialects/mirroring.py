"""An environment whose tools have arguments that headers repeat."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from openenv_grpc import MCPEnvironment, Observation, tool


def header(name: str) -> Any:
    """Declares that a header repeats an argument."""
    return Field(json_schema_extra={"x-mcp-header": name})


class Where(BaseModel):
    """Is behind a `$ref` in the schema, where nothing may be declared."""

    zone: Annotated[str, header("Zone")]


class Mirroring(MCPEnvironment):
    """Tells what it was asked for."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    @tool
    def query(
        self,
        region: Annotated[str, header("Region")],
        limit: Annotated[int | None, header("Limit")] = None,
        dry: Annotated[bool, header("Dry-Run")] = False,
    ) -> str:
        """Asks a region."""
        return f"{region} {limit} {dry}"

    @tool
    def odd(
        self,
        where: Where,
        share: Annotated[float, header("Share")] = 0.5,
        name: Annotated[str, header("not a token")] = "",
        one: Annotated[str, header("Same")] = "",
        other: Annotated[str, header("same")] = "",
    ) -> str:
        """Declares what may not be declared."""
        return where.zone

    @tool
    def plain(self, text: str) -> str:
        """Declares nothing."""
        return text
