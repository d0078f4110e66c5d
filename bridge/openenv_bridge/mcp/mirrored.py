"""Arguments of tools that stand in headers too: `x-mcp-header` in their schemas, of 2026-07-28."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from weakref import WeakKeyDictionary

from multidict import MultiMapping
from pydantic_core import from_json

from openenv_bridge.mcp.codec import Answering, McpCodec
from openenv_bridge.mcp.envelope import decoded, header_value
from openenv_bridge.mcp.messages import HEADER_MISMATCH, Call, McpError
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.operations import Kind, Operation, Result, ToolCall, ToolsListed
from openenv_grpc.serialization import dump_json
from openenv_grpc.sessions import SessionPort, ask
from openenv_grpc.types import JsonValue

ANNOTATION = "x-mcp-header"
PREFIX = "Mcp-Param-"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_PRIMITIVE = frozenset({"string", "integer", "boolean"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that a header repeats."""

    header: str
    """Without what all such headers begin with."""
    path: tuple[str, ...]
    """The names of the properties that lead to it."""

    @property
    def header_name(self) -> str:
        """The header's whole name."""
        return PREFIX + self.header

    def value_in(self, arguments: JsonValue) -> JsonValue:
        """Returns the argument; `None` if it is not there."""
        for name in self.path:
            if not isinstance(arguments, dict):
                return None
            arguments = arguments.get(name)
        return arguments


Declared = Mapping[str, Sequence[Parameter]]
"""What each tool has declared."""


def declared(schema: JsonValue) -> list[Parameter]:
    """Lists what a tool's schema declares. What it may not declare so counts for nothing."""
    found = list(_declared(schema, ()))
    times = Counter(each.header.lower() for each in found)
    return [each for each in found if times[each.header.lower()] == 1]


def _declared(schema: JsonValue, path: tuple[str, ...]) -> Iterator[Parameter]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, inner in properties.items():
        if not isinstance(inner, dict):
            continue
        header = inner.get(ANNOTATION)
        if isinstance(header, str) and _TOKEN.fullmatch(header) and _is_primitive(inner):
            yield Parameter(header, (*path, name))
        yield from _declared(inner, (*path, name))


def _is_primitive(schema: dict[str, JsonValue]) -> bool:
    """Tells whether a schema is of text, an integer or a boolean, which may be null beside."""
    either = schema.get("anyOf")
    parts = either if isinstance(either, list) else [schema]
    kinds: set[JsonValue] = set()
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        kinds.update(kind if isinstance(kind, list) else [kind])
    kinds.discard("null")
    return bool(kinds) and kinds <= _PRIMITIVE


def mirrored(parameters: Iterable[Parameter], arguments: JsonValue) -> dict[str, str]:
    """Writes the headers that repeat a call's arguments."""
    values = {each.header_name: each.value_in(arguments) for each in parameters}
    return {
        name: header_value(str(value).lower() if isinstance(value, bool) else value)
        for name, value in values.items()
        if _has_header(value)
    }


def mismatch(
    parameters: Iterable[Parameter], arguments: JsonValue, headers: MultiMapping[str]
) -> str:
    """Tells what is wrong with the headers that repeat a call's arguments; nothing if all fit."""
    for each in parameters:
        name, value = each.header_name, each.value_in(arguments)
        found = headers.getall(name, [])
        if not _has_header(value):
            if found:
                return f"the header {name} repeats an argument that is not there"
        elif not found:
            return f"the header {name} is missing, which repeats the argument {each.path[-1]!r}"
        elif len(found) > 1 or not _says(decoded(found[0]), value):
            return f"the header {name} says something else than the body"
    return ""


def repeated(headers: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Returns the headers that repeat arguments, whatever declares them."""
    prefix = PREFIX.lower()
    named = ((name.lower(), value) for name, value in headers.items())
    return frozenset((name, value) for name, value in named if name.startswith(prefix))


def _has_header(value: JsonValue) -> bool:
    return isinstance(value, str | int | float)


def _says(found: str | None, value: JsonValue) -> bool:
    """Tells whether a header's text stands for a value; of numbers, in whatever way of writing."""
    if found is None:
        return False
    match value:
        case bool():
            return found == str(value).lower()
        case int() | float():
            return _NUMBER.fullmatch(found) is not None and Decimal(found) == Decimal(value)
        case _:
            return bool(found == value)


class DeclarationCodec(McpCodec):
    """Writes of a list of tools what they declare."""

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes it by the tools' names."""
        if not isinstance(result, ToolsListed):
            return super().write(operation, result, spec)
        return dump_json(
            {
                tool.name: [[each.header, *each.path] for each in declared(tool.input_schema)]
                for tool in result.tools
            }
        )


_CODEC = DeclarationCodec()


class Mirrors:
    """What the tools of sessions declare, asked once of each."""

    def __init__(self) -> None:
        self._declared: WeakKeyDictionary[SessionPort, Declared] = WeakKeyDictionary()

    async def check(
        self, call: Call, port: SessionPort, tool: ToolCall, headers: MultiMapping[str]
    ) -> None:
        """Refuses a call whose headers do not repeat the arguments that its tool has declared.

        Raises:
            McpError: they say something else, or are not there.
        """
        if port.spec.mcp_style:  # to list its tools would be a step
            return
        known, is_new = self._declared.get(port), False
        if known is None or tool.name not in known:
            known, is_new = await self._listed(port), True
        wrong = mismatch(known.get(tool.name, ()), tool.arguments, headers)
        if wrong and not is_new:  # tools may have changed since
            known = await self._listed(port)
            wrong = mismatch(known.get(tool.name, ()), tool.arguments, headers)
        if wrong:
            raise McpError(HEADER_MISMATCH, wrong, call_id=call.id)

    async def _listed(self, port: SessionPort) -> Declared:
        operation = Operation(kind=Kind.LIST_TOOLS, codec=_CODEC, context=Answering(id=0))
        reply = await ask(port, operation)
        if reply.error is not None:  # a call is told of it, too
            return {}
        found: Declared = {
            name: [Parameter(header, tuple(path)) for header, *path in listed]
            for name, listed in from_json(reply.content).items()
        }
        self._declared[port] = found
        return found
