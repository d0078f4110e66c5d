"""Observations and actions in the form of the JSON protocol, by the reference's names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, TypeVar

from openenv_grpc.arrays import FOR_JSON
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.serialization import BESIDE, model_fields, parse_json
from openenv_grpc.tools import TOOL_ACTIONS, CallToolAction, ListToolsAction
from openenv_grpc.types import Action, JsonValue, Observation

ActionT = TypeVar("ActionT", bound=Action)


def serialize_observation(observation: Observation) -> dict[str, Any]:
    """Returns an observation's fields with `reward` and `done` beside them, as Python values.

    `metadata` stays among the fields; it stands beside them, too, unless it is empty.
    """
    fields = model_fields(observation, beside=BESIDE, context=FOR_JSON)
    serialized = {
        "observation": fields,
        "reward": observation.reward,
        "done": observation.done,
    }
    metadata = fields.get("metadata")
    return {**serialized, "metadata": metadata} if metadata else serialized


def deserialize_action(data: Mapping[str, JsonValue], action_cls: type[ActionT]) -> ActionT:
    """Makes an action of its fields.

    Where the class is `Action` itself or one of the tool actions, `type` may select one of these.

    Raises:
        pydantic.ValidationError: the fields do not fit.
    """
    chosen: type[Any] = action_cls
    if action_cls in (Action, ListToolsAction, CallToolAction):
        chosen = TOOL_ACTIONS.get(str(data.get("type")), action_cls)
    action: ActionT = chosen.model_validate(data)
    return action


def deserialize_action_with_preprocessing(
    data: Mapping[str, JsonValue], action_cls: type[ActionT]
) -> ActionT:
    """Makes an action of what a person typed into a form.

    `arguments` may be JSON text, `action_id` may be a number in text, and `tokens` may be a list or
    JSON text: it becomes a tensor where torch is installed.

    Raises:
        pydantic.ValidationError: the fields do not fit.
    """
    fields = dict(data)
    if isinstance(fields.get("arguments"), str):
        fields["arguments"] = _parsed(fields["arguments"], otherwise={})
    if isinstance(fields.get("action_id"), str):
        fields["action_id"] = _number(fields["action_id"])
    if isinstance(fields.get("tokens"), str):
        fields["tokens"] = _parsed(fields["tokens"], otherwise=[])
    if isinstance(fields.get("tokens"), list):
        fields["tokens"] = _as_tensor(fields["tokens"])
    return deserialize_action(fields, action_cls)


def _parsed(text: str, *, otherwise: JsonValue) -> JsonValue:
    """Reads JSON; blank text is what an empty field of a form means."""
    if not text.strip():
        return otherwise
    try:
        return parse_json(text)
    except InvalidRequestError:
        return text  # the action's class says what is wrong with it


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _as_tensor(tokens: list[JsonValue]) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return tokens
    return torch.tensor(tokens, dtype=torch.long)
