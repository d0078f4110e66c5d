"""Resources: what an agent may read by a URI, and how an author declares it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import unquote

from openenv_grpc.serialization import dump_json
from openenv_grpc.tools.answers import Media
from openenv_grpc.tools.declaring import DeclaredFunction
from openenv_grpc.tools.signatures import Signature
from openenv_grpc.types import JsonValue

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_PARAMETER = re.compile(r"\{(\+?)(\w+)\}")


@dataclass(slots=True, kw_only=True)
class ResourceInfo:
    """A resource, or a template of resources, as MCP describes it."""

    uri: str
    """Of a template, with its parameters in braces: `notes://{name}`."""
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size_bytes: int | None = None
    annotations: dict[str, JsonValue] | None = None
    icons: list[JsonValue] | None = None
    meta: dict[str, JsonValue] | None = None


@dataclass(slots=True, kw_only=True)
class ResourceList:
    """The resources of an environment."""

    resources: list[ResourceInfo] = field(default_factory=list)
    templates: list[ResourceInfo] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ResourceRead:
    """What a resource holds."""

    contents: list[dict[str, JsonValue]]
    """As MCP writes them: `uri`, `mimeType`, and `text` or `blob`, which is base64."""
    meta: dict[str, JsonValue] | None = None


class ResourceFunction(DeclaredFunction):
    """A function or method that is a resource, or a template of resources."""

    kind = "resource"

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
    ) -> None:
        super().__init__(function)
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
            raise ValueError(f"a resource has a URI with a scheme, as notes://all; not {uri!r}")
        self.uri = uri
        self.name = name or function.__name__
        self.title = title
        self.description = description
        self.mime_type = mime_type
        self.is_template = bool(_PARAMETER.search(uri))
        self._pattern = _pattern(uri)

    def arguments(self, uri: str) -> dict[str, str] | None:
        """Returns the arguments that a URI gives; `None` if it is not of this resource."""
        match = self._pattern.fullmatch(uri)
        if match is None:
            return None
        return {name: unquote(text) for name, text in match.groupdict().items()}

    def bound(self, call: Callable[..., Any]) -> BoundResource:
        """Makes the resource that `call` reads: this function, or this method of some object."""
        return BoundResource(function=self, call=call, signature=self.signature_of(call))


def _pattern(uri: str) -> re.Pattern[str]:
    parts, end = [], 0
    for parameter in _PARAMETER.finditer(uri):
        whole_path, name = parameter.groups()
        parts.append(re.escape(uri[end : parameter.start()]))
        parts.append(f"(?P<{name}>{'.+' if whole_path else '[^/]+'})")
        end = parameter.end()
    return re.compile("".join(parts) + re.escape(uri[end:]), re.DOTALL)


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Makes a method of an environment a resource, which agents may read.

    With parameters in the URI it is a template: `notes://{name}` takes one part of a path,
    `files://{+path}` the whole rest. The method takes them by name, converted as its annotations
    say. It returns text, bytes, `Media`, or a value that becomes JSON. Without `description` its
    docstring counts.

    Raises:
        ValueError: the URI has no scheme.
    """

    def decorate(function: FunctionT) -> FunctionT:
        made = ResourceFunction(
            function,
            uri,
            name=name,
            title=title,
            description=description,
            mime_type=mime_type,
        )
        return cast(FunctionT, made)

    return decorate


@dataclass(frozen=True, slots=True)
class BoundResource:
    """A resource that can be read."""

    function: ResourceFunction
    call: Callable[..., Any]
    signature: Signature

    def info(self) -> ResourceInfo:
        """Describes the resource.

        Raises:
            TypeError: the function does not take what its URI has.
        """
        declared = self.function
        given = {name for _, name in _PARAMETER.findall(declared.uri)}
        schema = self.signature.input_schema
        if not set(schema.get("required", ())) <= given <= set(schema["properties"]):
            raise TypeError(
                f"the resource {declared.name!r} has to take what its URI has: "
                f"{', '.join(sorted(given)) or 'nothing'}"
            )
        return ResourceInfo(
            uri=declared.uri,
            name=declared.name,
            title=declared.title,
            description=declared.description or self.signature.description,
            mime_type=declared.mime_type,
        )

    def read(self, arguments: Mapping[str, str]) -> Any:
        """Calls the function with what its URI gave; what it returns may be awaitable.

        Raises:
            InvalidArgumentsError: the arguments do not fit.
        """
        return self.call(**self.signature.read(self.function.name, arguments))

    def contents(self, uri: str, value: Any) -> ResourceRead:
        """Makes the contents of what the function returned.

        Raises:
            UnserializableResultError: the value cannot become JSON.
        """
        mime_type = self.function.mime_type
        content: dict[str, JsonValue] = {"uri": uri}
        match value:
            case str():
                content |= {"mimeType": mime_type or "text/plain", "text": value}
            case bytes():
                content |= {"mimeType": mime_type or "application/octet-stream"}
                content |= {"blob": base64.b64encode(value).decode("ascii")}
            case Media():
                content |= {"mimeType": mime_type or value.mime_type}
                content |= {"blob": base64.b64encode(value.data).decode("ascii")}
            case _:
                content |= {"mimeType": mime_type or "application/json"}
                content |= {"text": dump_json(value).decode()}
        return ResourceRead(contents=[content])
