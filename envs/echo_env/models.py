"""What echo takes and gives."""

from __future__ import annotations

from pydantic import Field

from openenv_grpc import Action, Observation


class EchoAction(Action):
    """Says something to the environment."""

    message: str = Field(description="What to echo")


class EchoObservation(Observation):
    """What came back."""

    echoed_message: str = Field(default="", description="The message, as it was said")
    message_length: int = Field(default=0, ge=0, description="Its length in characters")
