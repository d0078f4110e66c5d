"""The classes of an environment, as its client has them: what it makes of them and sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter

from openenv_grpc.client import parsing
from openenv_grpc.types import JsonValue, StepResult

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")


class TypedClient(Generic[ActT, ObsT, StateT]):
    """Reads and writes for one environment, by its classes or by the hooks of a subclass."""

    action_type: ClassVar[Any] = None
    """Class of actions. For readers; any mapping or model is sent as it is."""
    observation_type: ClassVar[Any] = None
    """Class, or union of classes, that observations are made of."""
    state_type: ClassVar[Any] = None
    """Class of the state."""

    _observations: ClassVar[parsing.ObservationReader | None] = None
    _states: ClassVar[TypeAdapter[Any] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Takes the environment's classes from the generic base, unless the subclass names them."""
        super().__init_subclass__(**kwargs)
        named = parsing.parameters(cls, TypedClient)
        for name, given in zip(
            ("action_type", "observation_type", "state_type"), named, strict=False
        ):
            if name not in cls.__dict__:
                setattr(cls, name, given)
        if cls.observation_type is not None:
            cls._observations = parsing.ObservationReader(cls.observation_type)
        if cls.state_type is not None:
            cls._states = TypeAdapter(cls.state_type)

    def _step_payload(self, action: ActT) -> Mapping[str, JsonValue]:
        """Returns an action as a mapping. A hook for subclasses."""
        return parsing.action_payload(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Makes the result of a reset or step. A hook for subclasses.

        `payload` has `observation`, `reward`, `done`, `terminated`, `truncated`, `info`, and
        `metadata` where there is some.
        """
        if self._observations is None:
            raise parsing.unnamed(type(self), "observation_type", "_parse_result")
        return StepResult(
            observation=self._observations.read(payload),
            reward=payload.get("reward"),
            done=payload.get("done", False),
            metadata=payload.get("metadata"),
        )

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """Makes a state. A hook for subclasses."""
        if self._states is None:
            raise parsing.unnamed(type(self), "state_type", "_parse_state")
        state: StateT = parsing.validated(self._states, payload, what="state")
        return state

    def _result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Parses a result, and adds what hooks written for the reference know nothing of."""
        result = self._parse_result(payload)
        if payload["terminated"] or payload["truncated"]:
            result.terminated = result.terminated or payload["terminated"]
            result.truncated = result.truncated or payload["truncated"]
        if payload["info"] and not result.info:
            result.info = payload["info"]
        return result
