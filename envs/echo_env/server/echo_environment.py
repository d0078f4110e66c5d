"""Gives back what it is told, by typed action or by tool."""

from __future__ import annotations

from typing import Any

from echo_env.models import EchoAction, EchoObservation
from openenv_grpc import EnvironmentMetadata, MCPEnvironment, State, tool

REWARD_PER_CHARACTER = 0.1
GREETING = "Echo environment ready!"


class EchoEnvironment(MCPEnvironment[EchoAction, EchoObservation, State]):
    """Rewards a message with a tenth of its length; a tool call has no verdict."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    SNAPSHOT_FIELDS = ()

    @tool
    def echo_message(self, message: str) -> str:
        """Gives back a message."""
        return message

    @tool
    def echo_with_length(self, message: str) -> dict[str, str | int]:
        """Gives back a message and its length in characters."""
        return {"message": message, "length": len(message)}

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> EchoObservation:
        """Greets."""
        return EchoObservation(
            echoed_message=GREETING,
            message_length=len(GREETING),
            reward=0.0,
            metadata={"status": "ready", "message": GREETING},
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Says what echo is."""
        return EnvironmentMetadata(
            name="echo_env",
            description="Gives back what it is told, by typed action or by tool",
            version="0.1.0",
        )

    def _step_impl(
        self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any
    ) -> EchoObservation:
        length = len(action.message)
        return EchoObservation(
            echoed_message=action.message,
            message_length=length,
            reward=REWARD_PER_CHARACTER * length,
        )
