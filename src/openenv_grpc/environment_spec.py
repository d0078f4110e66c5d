"""What an environment is, as far as that can be told without building one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pydantic import BaseModel, TypeAdapter

from openenv_grpc.serialization import ActionReader, json_schema
from openenv_grpc.types import Budgets, JsonValue, ServerMode

ENVIRONMENTS_HEADER = "OpenEnv-Environments"
"""Header of an HTTP refusal that lists, percent-encoded, what could have been named instead."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EnvironmentSpec:
    """What an environment is, as far as that can be told without building one."""

    name: str
    factory_name: str
    """Name of the class or function that builds it, for messages."""
    action_reader: ActionReader
    observation_type: type[BaseModel]
    reset_observation_type: type[BaseModel]
    state_type: type[BaseModel]
    mode: ServerMode
    concurrent_sessions: bool
    session_limit: int
    isolation: str
    """`thread`, `process`, `shared`, `inline`, or `async` for what runs on the server's loop."""
    requires_reset: bool = False
    has_tools: bool = False
    mcp_style: bool = False
    """Whether it has no tools of its own but takes tool actions in `step`."""
    has_tasks: bool = False
    snapshots: bool = False
    """Whether its sessions can be saved and forked."""
    budgets: Budgets = field(default_factory=Budgets)

    @cached_property
    def schemas(self) -> dict[str, JsonValue]:
        """JSON Schemas by `action`, `observation`, `state` and `reset_observation`."""
        return {
            "action": self.action_reader.schema(),
            "observation": json_schema(TypeAdapter(self.observation_type)),
            "state": json_schema(TypeAdapter(self.state_type)),
            "reset_observation": json_schema(TypeAdapter(self.reset_observation_type)),
        }
