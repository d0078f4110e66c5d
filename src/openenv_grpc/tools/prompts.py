"""Prompts: texts that an agent, or who runs it, may ask for, and how an author declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, overload

from openenv_grpc.tools.answers import message_of
from openenv_grpc.tools.declaring import DeclaredFunction
from openenv_grpc.tools.signatures import Signature
from openenv_grpc.types import JsonValue

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(slots=True, kw_only=True)
class PromptArgument:
    """What a prompt takes."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(slots=True, kw_only=True)
class PromptInfo:
    """A prompt, as MCP describes it."""

    name: str
    title: str | None = None
    description: str = ""
    arguments: list[PromptArgument] = field(default_factory=list)
    icons: list[JsonValue] | None = None
    meta: dict[str, JsonValue] | None = None


@dataclass(slots=True, kw_only=True)
class PromptAnswer:
    """What a prompt says."""

    messages: list[dict[str, JsonValue]]
    """As MCP writes them: `role`, and `content`, which is one content block."""
    description: str = ""
    meta: dict[str, JsonValue] | None = None


class PromptFunction(DeclaredFunction):
    """A function or method that is a prompt."""

    kind = "prompt"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(function)
        self.name = name or function.__name__
        self.title = title
        self.description = description

    def bound(self, call: Callable[..., Any]) -> BoundPrompt:
        """Makes the prompt that `call` writes: this function, or this method of some object."""
        return BoundPrompt(function=self, call=call, signature=self.signature_of(call))


@overload
def prompt(function: FunctionT, /) -> FunctionT: ...
@overload
def prompt(
    *, name: str | None = None, title: str | None = None, description: str | None = None
) -> Callable[[FunctionT], FunctionT]: ...
def prompt(
    function: FunctionT | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
) -> Any:
    """Makes a method of an environment a prompt.

    Its arguments are those of the prompt, converted from text as their annotations say. It returns
    a text, which the user says, or a list of texts, `Media` and messages: mappings with `role`
    (`user` or `assistant`) and `content`, a text, `Media`, or a content block of MCP.
    """

    def decorate(function: FunctionT) -> FunctionT:
        made = PromptFunction(function, name=name, title=title, description=description)
        return cast(FunctionT, made)

    return decorate if function is None else decorate(function)


@dataclass(frozen=True, slots=True)
class BoundPrompt:
    """A prompt that can be asked for."""

    function: PromptFunction
    call: Callable[..., Any]
    signature: Signature

    def info(self) -> PromptInfo:
        """Describes the prompt."""
        schema = self.signature.input_schema
        required = schema.get("required", [])
        return PromptInfo(
            name=self.function.name,
            title=self.function.title,
            description=self.description,
            arguments=[
                PromptArgument(
                    name=name,
                    description=described.get("description", ""),
                    required=name in required,
                )
                for name, described in schema["properties"].items()
            ],
        )

    @property
    def description(self) -> str:
        """What the prompt is for."""
        return self.function.description or self.signature.description

    def ask(self, arguments: Mapping[str, JsonValue]) -> Any:
        """Calls the function; what it returns may be awaitable.

        Raises:
            InvalidArgumentsError: the arguments do not fit.
        """
        return self.call(**self.signature.read(self.function.name, arguments))

    def answer(self, value: Any) -> PromptAnswer:
        """Makes the messages of what the function returned.

        Raises:
            TypeError: it returned something else than a prompt does.
        """
        parts = value if isinstance(value, list | tuple) else [value]
        return PromptAnswer(
            messages=[self._message(part) for part in parts], description=self.description
        )

    def _message(self, part: Any) -> dict[str, JsonValue]:
        message = message_of(part)
        if message is None:
            raise TypeError(
                f"the prompt {self.function.name!r} returned {type(part).__name__}; a message "
                'is a text, Media, or {"role": "user" or "assistant", "content": ...}'
            )
        return message
