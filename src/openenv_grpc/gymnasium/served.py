"""Environments of Gymnasium, served: spaces become the classes of actions and observations."""

from __future__ import annotations

import functools
import re
from typing import Annotated, Any, ClassVar

import gymnasium
import numpy
from gymnasium import spaces
from pydantic import BaseModel, ConfigDict, Field, create_model
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from openenv_grpc.arrays import Array
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.environment import Environment
from openenv_grpc.errors import ConfigurationError, UnserializableResultError
from openenv_grpc.gymnasium.descriptions import KEYWORD, describe
from openenv_grpc.gymnasium.forms import Form, Space, form_of_space
from openenv_grpc.serialization import to_plain
from openenv_grpc.types import Action, EnvironmentMetadata, JsonValue, Observation, State

ACTION = "action"
OBSERVATION = "observation"
"""The fields that hold a value of the space."""


class GymEnvironment(Environment[Any, Any, State]):
    """An environment of Gymnasium.

    An action has the field `action`, an observation `observation` and `info`. What JSON cannot
    carry is left out of `info`. A step that both terminates and truncates counts as terminated.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self, env_id: str, observation_type: type[Any] | None = None) -> None:
        """Makes the environment that Gymnasium knows under `env_id`."""
        self._env = gymnasium.make(env_id)
        self._action = form_of_space(self._env.action_space)
        self._observation = form_of_space(self._env.observation_space)
        self._observation_type = observation_type or observation_class(self._observation)
        self._env_id = env_id

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> Observation:
        """Resets it; keywords are its options."""
        observation, info = self._env.reset(seed=seed, options=options or None)
        return self._seen(observation, info)

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Applies an action."""
        observation, reward, terminated, truncated, info = self._env.step(
            self._action.decode(action.action)
        )
        seen = self._seen(observation, info)
        seen.reward = float(reward)
        seen.done = bool(terminated or truncated)
        seen.truncated = bool(truncated and not terminated)
        return seen

    def close(self) -> None:
        """Closes it."""
        self._env.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Names it."""
        return EnvironmentMetadata(
            name=self._env_id, description=f"{self._env_id} of Gymnasium", version="1.0.0"
        )

    def _seen(self, observation: Any, info: dict[str, Any]) -> Observation:
        # Not validated: the class was made of the space, and the values are the environment's.
        seen: Observation = self._observation_type.model_construct(
            observation=self._observation.encode(observation), info=_sendable(info)
        )
        return seen


def _sendable(info: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what cannot be sent."""
    sendable: dict[str, Any] = {}
    for name, value in info.items():
        if not isinstance(value, numpy.ndarray):
            try:
                to_plain(value)
            except UnserializableResultError:
                continue
        sendable[str(name)] = value
    return sendable


def gymnasium_environment(env_id: str, *, name: str | None = None) -> EnvironmentDefinition:
    """Returns what serves an environment of Gymnasium, as `serve gym:ENV_ID` does.

    It is built once, for its spaces.

    Raises:
        ConfigurationError: Gymnasium cannot make it, or has a space for it that cannot be served.
    """
    try:
        env = gymnasium.make(env_id)
    except Exception as error:  # an environment may raise anything
        raise ConfigurationError(f"gymnasium cannot make {env_id!r}: {error}") from error
    try:
        action, observation = form_of_space(env.action_space), form_of_space(env.observation_space)
    finally:
        env.close()
    observation_type = observation_class(observation)
    return EnvironmentDefinition(
        factory=functools.partial(GymEnvironment, env_id, observation_type),
        action_type=_class("GymAction", Action, ACTION, action),
        observation_type=observation_type,
        name=name or re.sub(r"[^A-Za-z0-9_.-]+", "-", env_id),
    )


def observation_class(form: Form) -> type[Any]:
    """Makes the class of observations with a value of a space."""
    info: Any = (
        dict[str, Any],
        Field(default_factory=dict, description="What the environment tells"),
    )
    return _class("GymObservation", Observation, OBSERVATION, form, info=info)


def _class(name: str, base: type[BaseModel], field: str, form: Form, **more: Any) -> type[Any]:
    config = ConfigDict(json_schema_extra={KEYWORD: describe(form.space)})
    described = type(name, (base,), {"model_config": config, "__module__": __name__})
    content: Any = (field_type(form.space), Field(description=f"Of the space {form.space}"))
    made: type[Any] = create_model(
        name, __base__=described, __module__=__name__, **{field: content}, **more
    )
    return made


def field_type(space: Space) -> Any:
    """Returns the annotation of a field that holds a value of a space."""
    match space:
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            dtype = numpy.dtype(space.dtype)
            return Annotated[numpy.ndarray, Array(tuple(space.shape), dtype=dtype.name)]
        case spaces.Discrete():
            start = int(space.start)
            return Annotated[int, Field(ge=start, lt=start + int(space.n))]
        case spaces.Text():
            return Annotated[str, Field(min_length=space.min_length, max_length=space.max_length)]
        case spaces.Tuple():
            return tuple.__class_getitem__(tuple(field_type(part) for part in space.spaces))
        case spaces.Dict():
            parts: dict[str, JsonValue] = {
                name: field_type(part) for name, part in space.spaces.items()
            }
            return TypedDict("GymFields", parts)  # type: ignore[operator]  # keys known at run time
        case _:
            raise ConfigurationError(f"a {type(space).__name__} space cannot be served")
