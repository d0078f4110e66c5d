"""What environments and clients exchange: actions, observations, states and what describes them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

JsonValue = Any
"""A value that JSON can carry. `Any`, since a recursive alias costs more than it tells."""

ObservationT = TypeVar("ObservationT")


class ServerMode(enum.StrEnum):
    """What a server is for. In production nobody resets, steps or reads state."""

    SIMULATION = "simulation"
    PRODUCTION = "production"


class Action(BaseModel):
    """What an agent does. Subclass it with the fields of your action."""

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, arbitrary_types_allowed=True
    )

    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Additional metadata for the action"
    )


_REWARD_SCHEMA = {"anyOf": [{"type": kind} for kind in ("boolean", "integer", "number", "null")]}


class Observation(BaseModel):
    """What an agent sees. Subclass it with the fields of your observation.

    `done` and `reward` travel beside the observation, not in it. Set `truncated` together with
    `done` where the episode was cut short by a limit rather than ended by its rules.
    """

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, arbitrary_types_allowed=True
    )

    done: bool = Field(default=False, description="Whether the episode has terminated")
    # Floats first, as most rewards are: pydantic stops at the first type that fits exactly.
    reward: Annotated[float | int | bool | None, WithJsonSchema(_REWARD_SCHEMA)] = Field(
        default=None, description="Reward signal from the last action"
    )
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Additional metadata for the observation"
    )
    # Neither in the schema nor in the dump: the reference's clients refuse unknown fields.
    truncated: SkipJsonSchema[bool] = Field(default=False, exclude=True)


class State(BaseModel):
    """What an environment tells a trainer of itself. Extra fields are allowed."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = Field(
        default=None, description="Unique identifier for the current episode"
    )
    step_count: int = Field(
        default=0, ge=0, description="Number of steps taken in the current episode"
    )


class Isolation(enum.StrEnum):
    """Where an environment's code runs."""

    THREAD = "thread"
    PROCESS = "process"
    SHARED = "shared"
    INLINE = "inline"


class EnvironmentMetadata(BaseModel):
    """What an environment is, for people."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Name of the environment")
    description: str = Field(description="What the environment does")
    readme_content: str | None = Field(default=None, description="README, in Markdown")
    version: str | None = Field(default=None, description="Version of the environment")
    author: str | None = Field(default=None, description="Who made it")
    documentation_url: str | None = Field(default=None, description="Where its documentation is")


class ConcurrencyConfig(BaseModel):
    """How many sessions a server holds, and for how long."""

    model_config = ConfigDict(extra="forbid")

    max_concurrent_envs: int = Field(default=1, ge=1)
    session_timeout: float | None = Field(default=None, gt=0)
    """Seconds that a session may idle; `None` for ever."""


@dataclass
class StepResult(Generic[ObservationT]):
    """What a client gets from `reset` and `step`."""

    observation: ObservationT
    reward: float | None = None
    """`None` where there is no verdict, which is not 0."""
    done: bool = False
    """The episode is over: `terminated` or `truncated`."""
    metadata: dict[str, Any] | None = None
    terminated: bool = False
    """Over by the rules of the environment."""
    truncated: bool = False
    """Cut short, by a limit of steps or time."""
    info: dict[str, Any] = field(default_factory=dict)
    """Beside the observation: parts of the reward (`rewards`), `episode_id` after a reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """How long an environment's operations take in seconds, by its author's word.

    `reset_s`, `step_s` and `close_s` are the longest times: clients wait as long unless they are
    told otherwise, and the server waits as long for `close`. `None` is not known.

    Raises:
        ValueError: a time is not above 0, or is expected to be above the longest.
    """

    reset_s: float | None = None
    step_s: float | None = None
    close_s: float | None = None
    expected_reset_s: float | None = None
    """How long a reset usually takes."""
    expected_step_s: float | None = None
    expected_close_s: float | None = None

    def __post_init__(self) -> None:
        """Checks the times."""
        for name, longest_s, expected_s in (
            ("reset", self.reset_s, self.expected_reset_s),
            ("step", self.step_s, self.expected_step_s),
            ("close", self.close_s, self.expected_close_s),
        ):
            for given_s in (longest_s, expected_s):
                if given_s is not None and not 0 < given_s < float("inf"):
                    raise ValueError(f"the time of a {name} has to be above 0, not {given_s!r}")
            if longest_s is not None and expected_s is not None and expected_s > longest_s:
                raise ValueError(
                    f"a {name} is expected to take {expected_s:g} s, and may take {longest_s:g} s"
                )
