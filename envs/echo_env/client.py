"""The client of echo: messages typed, tools as in every environment that has some."""

from __future__ import annotations

from typing import Any

from echo_env.models import EchoObservation
from openenv_grpc import MCPToolClient, StepResult


class EchoEnv(MCPToolClient):
    """Drives an echo environment.

    ```python
    async with EchoEnv(base_url="grpc://127.0.0.1:50051") as client:
        result = await client.reset()
        result = await client.step(EchoAction(message="Hello, World!"))
        print(result.observation.echoed_message, result.reward)
    ```
    """

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        fields = payload.get("observation", {})
        result = super()._parse_result(payload)
        if "tool_name" in fields or "tools" in fields:
            return result
        # The reference's environment greets in the metadata, having no field for it.
        metadata = fields.get("metadata") or payload.get("metadata") or {}
        message = fields.get("echoed_message") or metadata.get("message", "")
        result.observation = EchoObservation(
            echoed_message=message,
            message_length=fields.get("message_length", len(message)),
            done=result.done,
            reward=result.reward,
            metadata=metadata,
        )
        return result
