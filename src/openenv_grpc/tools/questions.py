"""What a tool may ask the client of its caller: its user, its model, its roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar, overload

from pydantic import BaseModel, ValidationError

from openenv_grpc.errors import ClientAnswerError
from openenv_grpc.tools.answers import Media, message_of
from openenv_grpc.tools.asking import ANSWER_TIMEOUT_S, Question, desk
from openenv_grpc.tools.forms import form_schema
from openenv_grpc.types import JsonValue

FormT = TypeVar("FormT", bound=BaseModel)


class Confirmation(BaseModel):
    """A form without fields: accepting it is the answer."""


@dataclass(frozen=True, slots=True)
class Elicited(Generic[FormT]):
    """What a user did with a question."""

    action: Literal["accept", "decline", "cancel"]
    content: FormT | None = None
    """The form as it was filled in; `None` unless it was accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What an agent's model said."""

    text: str
    """The text of it."""
    content: JsonValue
    """All of it: a content block of MCP, or a list of them."""
    model: str
    stop_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """A place that a client lets servers work in."""

    uri: str
    name: str | None = None


@overload
def elicit(
    message: str, *, key: str = "", timeout_s: float | None = ANSWER_TIMEOUT_S
) -> Question[Elicited[Confirmation]]: ...
@overload
def elicit(
    message: str,
    form: type[FormT],
    *,
    key: str = "",
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Question[Elicited[FormT]]: ...
def elicit(
    message: str,
    form: type[BaseModel] = Confirmation,
    *,
    key: str = "",
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Question[Any]:
    """Asks the user of the tool's caller.

    `form` is a pydantic model with fields that are text, numbers, booleans or choices; without one
    the user accepts or declines. `key` names the question for clients of 2026-07-28.

    Raises:
        ClientCapabilityError: the caller's client does not offer elicitation.
        TypeError: the form has other fields.
    """
    params: dict[str, JsonValue] = {
        "mode": "form",
        "message": message,
        "requestedSchema": form_schema(form),
    }
    at = desk()
    return Question(at, at.put("elicitation", params, key), partial(_elicited, form), timeout_s)


def _elicited(form: type[FormT], result: JsonValue) -> Elicited[FormT]:
    if result["action"] != "accept":
        return Elicited(result["action"])
    try:
        return Elicited("accept", form.model_validate(result.get("content") or {}))
    except ValidationError as error:
        found = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
        )
        raise ClientAnswerError(f"the form came back with what does not fit: {found}") from error


def sample(
    messages: str | Media | Mapping[str, Any] | Sequence[str | Media | Mapping[str, Any]],
    *,
    max_tokens: int,
    system_prompt: str | None = None,
    temperature: float | None = None,
    stop_sequences: Sequence[str] = (),
    model_preferences: Mapping[str, JsonValue] | None = None,
    key: str = "",
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Question[Sampled]:
    """Asks the model of the tool's caller to go on after `messages`.

    A message is a text or `Media`, which the user says, or a mapping with `role` (`user` or
    `assistant`) and `content`: a text, `Media`, or a content block of MCP. `model_preferences` are
    MCP's.

    Raises:
        ClientCapabilityError: the caller's client does not offer sampling.
        TypeError: a message is none of these.
    """
    parts = messages if isinstance(messages, list | tuple) else [messages]
    params: dict[str, JsonValue] = {
        "messages": [_message(part) for part in parts],
        "maxTokens": max_tokens,
    }
    if system_prompt is not None:
        params["systemPrompt"] = system_prompt
    if temperature is not None:
        params["temperature"] = temperature
    if stop_sequences:
        params["stopSequences"] = list(stop_sequences)
    if model_preferences is not None:
        params["modelPreferences"] = dict(model_preferences)
    at = desk()
    return Question(at, at.put("sampling", params, key), _sampled, timeout_s)


def _message(part: object) -> dict[str, JsonValue]:
    message = message_of(part)
    if message is None:
        raise TypeError(
            f"sample() takes messages, not {type(part).__name__}: a text, Media, or "
            '{"role": "user" or "assistant", "content": ...}'
        )
    return message


def _sampled(result: JsonValue) -> Sampled:
    content = result["content"]
    blocks = content if isinstance(content, list) else [content]
    texts = (block["text"] for block in blocks if block.get("type") == "text")
    return Sampled(
        text="\n".join(texts),
        content=content,
        model=result["model"],
        stop_reason=result.get("stopReason"),
    )


def roots(*, key: str = "", timeout_s: float | None = ANSWER_TIMEOUT_S) -> Question[list[Root]]:
    """Asks where the client of the tool's caller lets servers work.

    Raises:
        ClientCapabilityError: the caller's client does not offer roots.
    """
    at = desk()
    return Question(at, at.put("roots", {}, key), _roots, timeout_s)


def _roots(result: JsonValue) -> list[Root]:
    return [Root(each["uri"], each.get("name")) for each in result["roots"]]
