"""What tools are and what they answer, between authors, doors and clients."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openenv_grpc.serialization import dump_json, to_plain
from openenv_grpc.types import JsonValue


@dataclass(slots=True, kw_only=True)
class ToolInfo:
    """A tool, as MCP describes it."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] = field(default_factory=lambda: {"type": "object"})
    title: str | None = None
    output_schema: dict[str, JsonValue] | None = None
    annotations: dict[str, JsonValue] | None = None
    icons: list[JsonValue] | None = None
    meta: dict[str, JsonValue] | None = None
    execution: dict[str, JsonValue] | None = None


@dataclass(slots=True, kw_only=True)
class ToolAnswer:
    """What a tool answered."""

    content: list[dict[str, JsonValue]]
    """MCP content blocks, as MCP writes them: `{"type": "text", "text": …}` and so on."""
    structured_content: dict[str, JsonValue] | None = None
    data: JsonValue = None
    """What the tool returned, without the `{"result": …}` that MCP puts around non-objects."""
    meta: dict[str, JsonValue] | None = None
    is_error: bool = False
    """Whether the tool failed; `content` says how."""
    observation: Any = None
    """Where the tool is an action in disguise ("MCP-style" environments): what `step` returned."""
    reward: bool | int | float | None = None
    """For the trainer, who finds it in the observation or by `evaluate`, never for the agent."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Parts of the reward by name."""
    terminated: bool = False
    """Whether the call ended the episode by its rules."""
    truncated: bool = False
    """Whether the call had the episode cut short."""

    def text(self) -> str:
        """Returns the text of the content."""
        return _text(self.content)

    def as_result(self) -> ToolResult:
        """Returns the answer in the shape that the reference gives it in JSON."""
        return ToolResult(
            content=[_reference_block(block) for block in self.content],
            structured_content=self.structured_content,
            meta=self.meta,
            data=self.data,
            is_error=self.is_error,
        )


class ToolResult(dict[str, JsonValue]):
    """A tool's answer as a client sees it: the reference's mapping, and plain text by `str`.

    The keys are `content`, `structured_content`, `meta`, `data` and `is_error`.
    """

    def __str__(self) -> str:
        return _text(self.get("content") or [])


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool returns that has something to tell the trainer. Agents see `content` alone."""

    content: Any = None
    """What the tool would return otherwise."""
    reward: bool | int | float | None = None
    terminated: bool = False
    """The episode is over by its rules."""
    truncated: bool = False
    """The episode is cut short by a limit."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Parts of the reward by name."""


@dataclass(frozen=True, slots=True)
class Media:
    """A file that a tool returns, alone or in a list: an image, a sound, or any other."""

    data: bytes
    """The file's bytes."""
    mime_type: str
    """`image/png`, `audio/wav`, `application/pdf` and so on."""
    uri: str | None = None
    """Of a file that is a resource. What is neither an image nor a sound is always sent as one."""


def answer_of(value: Any, *, wrap: bool = False) -> ToolAnswer:
    """Turns what a tool returned into its answer.

    `wrap` puts objects, too, into `{"result": …}`, as the tool's output schema may want it.

    Raises:
        UnserializableResultError: the value cannot become JSON.
    """
    if isinstance(value, ToolOutcome):
        answer = answer_of(value.content, wrap=wrap)
        answer.reward = value.reward
        answer.rewards = dict(value.rewards)
        answer.terminated = value.terminated
        answer.truncated = value.truncated
        return answer
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, Media) for part in parts):
        return ToolAnswer(content=[_part(part) for part in parts])
    plain = to_plain(value)
    content = [] if plain is None else [content_block(plain)]
    if isinstance(plain, dict) and not wrap:
        return ToolAnswer(content=content, structured_content=plain, data=plain)
    if plain is None and not wrap:
        return ToolAnswer(content=content)
    return ToolAnswer(
        content=content,
        structured_content={"result": plain},
        data=plain,
        meta={"fastmcp": {"wrap_result": True}},  # by which clients of fastmcp unwrap it again
    )


def failure(text: str) -> ToolAnswer:
    """Makes the answer of a tool that failed."""
    return ToolAnswer(content=[{"type": "text", "text": text}], is_error=True)


def _part(value: Any) -> dict[str, JsonValue]:
    return content_block(value if isinstance(value, Media) else to_plain(value))


def content_block(value: Any) -> dict[str, JsonValue]:
    """Writes a value as one content block of MCP."""
    match value:
        case Media():
            return _media_block(value)
        case str():
            return {"type": "text", "text": value}
        case _:
            return {"type": "text", "text": dump_json(value).decode()}


def message_of(part: object) -> dict[str, JsonValue] | None:
    """Writes a message of MCP; `None` if it is neither text, `Media` nor a mapping of its kind."""
    match part:
        case str() | Media():
            return {"role": "user", "content": content_block(part)}
        case {"role": "user" | "assistant" as role, "content": str() | Media() as content}:
            return {"role": role, "content": content_block(content)}
        case {"role": "user" | "assistant" as role, "content": {"type": str()} as content}:
            return {"role": role, "content": content}
        case _:
            return None


def _media_block(media: Media) -> dict[str, JsonValue]:
    data = base64.b64encode(media.data).decode("ascii")
    kind = media.mime_type.partition("/")[0]
    if media.uri is None and kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": media.mime_type}
    uri = media.uri or "data:"  # MCP wants one, and this one leads nowhere
    return {
        "type": "resource",
        "resource": {"uri": uri, "mimeType": media.mime_type, "blob": data},
    }


def _reference_block(block: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Writes a content block as the reference does: with nulls, and `meta` for `_meta`."""
    plain = {name: part for name, part in block.items() if name not in ("annotations", "_meta")}
    return {**plain, "annotations": block.get("annotations"), "meta": block.get("_meta")}


def _text(content: Sequence[JsonValue]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
