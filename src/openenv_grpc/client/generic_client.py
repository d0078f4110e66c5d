"""A client that knows nothing of the environment: mappings out, mappings in."""

from __future__ import annotations

from typing import Any

from openenv_grpc.client.env_client import EnvClient
from openenv_grpc.types import StepResult


class GenericEnvClient(EnvClient[Any, dict[str, Any], dict[str, Any]]):
    """Drives any environment. Actions are mappings or models; the rest is mappings."""

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        return StepResult(
            observation=payload.get("observation", {}),
            reward=payload.get("reward"),
            done=payload.get("done", False),
            metadata=payload.get("metadata"),
        )

    def _parse_state(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload


class GenericAction(dict[str, Any]):
    """An action by its fields: `GenericAction(message="hello")`."""

    def __init__(self, **fields: Any) -> None:
        """Takes the action's fields as keywords."""
        super().__init__(fields)

    def __repr__(self) -> str:
        """Writes it as it was made."""
        fields = ", ".join(f"{name}={value!r}" for name, value in self.items())
        return f"GenericAction({fields})"
