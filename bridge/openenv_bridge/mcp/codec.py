"""What sessions write for MCP: results and errors as JSON-RPC responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openenv_bridge import errors
from openenv_bridge.mcp import messages
from openenv_bridge.mcp.messages import CallId
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    InternalError,
    InvalidRequestError,
    OpenEnvError,
    Reason,
    UnserializableResultError,
)
from openenv_grpc.operations import (
    Closed,
    Kind,
    Observed,
    Opened,
    Operation,
    PromptsListed,
    Reply,
    ResetArguments,
    Result,
    StepArguments,
    ToolCall,
    ToolsListed,
)
from openenv_grpc.serialization import BESIDE, dump_json, model_fields
from openenv_grpc.tools import (
    PromptAnswer,
    PromptInfo,
    ResourceInfo,
    ResourceList,
    ResourceRead,
    ToolAnswer,
    ToolInfo,
)
from openenv_grpc.types import EnvironmentMetadata, JsonValue

HANDLE = "openenv_session"
"""The argument of tools that names a session, where nothing else does."""
HANDLE_META = "openenv-grpc/session"
"""The same in `_meta`, of calls and of answers."""
OBSERVATION_URI = "openenv://observation"
"""The resource that has the observation with which the session's episode began."""

_CACHING: dict[str, JsonValue] = {"ttlMs": 0, "cacheScope": "private"}
"""What a session has may change by any call, and is nobody else's."""

_HANDLE_SCHEMA: dict[str, JsonValue] = {
    "type": "string",
    "description": "Names the session to go on in. Leave it out with the first call, whose answer "
    "tells the name, and pass that with every later call.",
}

_TOLD_TO_THE_MODEL = frozenset(
    {
        Reason.INVALID_ARGUMENTS,
        Reason.INVALID_ACTION,
        Reason.ENVIRONMENT_FAILED,
        Reason.EPISODE_NOT_STARTED,
        Reason.EPISODE_OVER,
        Reason.DEADLINE_EXCEEDED,
        Reason.UNSERIALIZABLE_RESULT,
        Reason.TOO_MANY_OPERATIONS,
    }
)
"""What a tool call answers as a tool's error, which the model reads and may correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """To whom an answer goes, and in which era."""

    id: CallId
    modern: bool = False
    templates: bool = False
    """Whether a list of resources is to have the templates."""
    observed: bool = False
    """Whether there is a first observation to read."""
    handles: bool = False
    """Whether tools take the name of a session."""
    begun: str = ""
    """The session that the call began, to be told."""
    first: str = ""
    """The observation with which that began."""

    def result(self, value: dict[str, JsonValue], *, caching: bool = False) -> bytes:
        """Writes a response."""
        if self.modern:
            value = {"resultType": "complete", **value}
            if caching:
                value.update(_CACHING)
        return messages.result(self.id, value)


class McpCodec:
    """Reads tool calls and writes answers; `context` is an `Answering`."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Resets without arguments: the session begins by itself."""
        return ResetArguments(keywords={})

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Refuses: an agent does not step."""
        raise InternalError("MCP has no step")

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Takes the payload as the call."""
        call: ToolCall = operation.payload
        return call

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the response; of what nobody asked for, the content alone."""
        answering: Answering = operation.context
        match result:
            case ToolAnswer():
                return answering.result(_answer(result, answering))
            case ToolsListed():
                tools = [_tool(tool, answering) for tool in result.tools]
                return answering.result({"tools": tools}, caching=True)
            case ResourceList():
                return answering.result(_resources(result, answering), caching=True)
            case ResourceRead():
                read = _present(contents=result.contents, _meta=result.meta)
                return answering.result(read, caching=True)
            case PromptsListed():
                prompts = [_prompt(prompt) for prompt in result.prompts]
                return answering.result({"prompts": prompts}, caching=True)
            case PromptAnswer():
                return answering.result(
                    _present(
                        description=result.description or None,
                        messages=result.messages,
                        _meta=result.meta,
                    )
                )
            case Observed():
                fields = model_fields(result.observation, beside=BESIDE)
                if not fields.get("metadata", True):
                    del fields["metadata"]  # noise for a model
                return dump_json(fields)
            case EnvironmentMetadata():
                return result.description.encode()
            case Opened() | Closed():
                return b""
            case _:
                raise UnserializableResultError(f"MCP has no {operation.kind.value}")

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes an error response, or a tool's answer that says what was wrong."""
        answering: Answering = operation.context
        if _is_for_the_model(operation, error):
            return tool_error(answering, error.message)
        facts = _facts(error)
        return messages.error(answering.id, _code(error, answering), error.message, facts=facts)


MCP_CODEC = McpCodec()


def tool_error(answering: Answering, message: str) -> bytes:
    """Writes the answer of a tool that failed, for a model to read."""
    return answering.result(_answer(ToolAnswer(content=[_text(message)], is_error=True), answering))


def error_code(reply: Reply) -> int | None:
    """Returns the code of an error response; `None` if a reply was written as another."""
    operation, error = reply.operation, reply.error
    if error is None or _is_for_the_model(operation, error):
        return None
    return _code(error, operation.context)


def _is_for_the_model(operation: Operation, error: OpenEnvError) -> bool:
    called = operation.kind is Kind.CALL_TOOL and not error.session_lost
    if error.reason is Reason.CLIENT_CAPABILITY_MISSING:
        return called and not operation.context.modern  # which has a code for it
    return called and error.reason in _TOLD_TO_THE_MODEL


def _facts(error: OpenEnvError) -> JsonValue:
    match error.metadata:
        case {"uri": uri}:
            return {"uri": uri}
        case {"capability": capability}:
            return {"requiredCapabilities": {capability: {}}}
        case _:
            return None


def _code(error: OpenEnvError, answering: Answering) -> int:
    if error.session_lost:
        return messages.SESSION_ERROR
    match error.reason:
        case Reason.RESOURCE_NOT_FOUND if not answering.modern:
            return messages.LEGACY_RESOURCE_NOT_FOUND
        case Reason.CLIENT_CAPABILITY_MISSING if answering.modern:
            return messages.MISSING_CAPABILITY
        case (
            Reason.RESOURCE_NOT_FOUND
            | Reason.TOOL_NOT_FOUND
            | Reason.NOT_SUPPORTED
            | Reason.INVALID_ARGUMENTS
            | Reason.INVALID_REQUEST
        ):
            return messages.INVALID_PARAMS
        case reason:
            return errors.PROJECTIONS[reason].rpc_code


def tool_call(params: dict[str, JsonValue]) -> tuple[ToolCall, str]:
    """Reads the parameters of a call, and the session that is named in it or empty text.

    Raises:
        InvalidRequestError: they are not those of a call.
    """
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not name:
        raise InvalidRequestError("a tool call has the tool's name, a string, in `name`")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise InvalidRequestError("the arguments of a tool call have to be an object")
    handle = arguments.get(HANDLE, "")
    return ToolCall(name=name, arguments=arguments), handle if isinstance(handle, str) else ""


def without_handle(call: ToolCall) -> ToolCall:
    """Returns a call as its tool is to see it."""
    kept = {name: value for name, value in call.arguments.items() if name != HANDLE}
    return ToolCall(name=call.name, arguments=kept)


def observation_resource() -> dict[str, JsonValue]:
    """Describes the resource that has the first observation."""
    return {
        "uri": OBSERVATION_URI,
        "name": "observation",
        "description": "The observation with which the episode began.",
        "mimeType": "application/json",
    }


def _answer(answer: ToolAnswer, answering: Answering) -> dict[str, JsonValue]:
    content, meta = list(answer.content), dict(answer.meta or {})
    if answering.begun:
        content.append(_text(_begun(answering)))
        meta[HANDLE_META] = answering.begun
    return _present(
        content=content,
        structuredContent=answer.structured_content,
        isError=answer.is_error,
        _meta=meta or None,
    )


def _begun(answering: Answering) -> str:
    told = (
        f"This call began a session. To go on in it, pass {HANDLE}={answering.begun!r} with "
        "every call."
    )
    return f"{told} It began with the observation {answering.first}" if answering.first else told


def _text(text: str) -> dict[str, JsonValue]:
    return {"type": "text", "text": text}


def _tool(tool: ToolInfo, answering: Answering) -> dict[str, JsonValue]:
    schema = tool.input_schema
    if answering.handles:
        properties = {**schema.get("properties", {}), HANDLE: _HANDLE_SCHEMA}
        schema = {"type": "object", **schema, "properties": properties}
    return _present(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        inputSchema=schema,
        outputSchema=tool.output_schema,
        annotations=tool.annotations,
        icons=tool.icons,
        execution=None if answering.modern else tool.execution,
        _meta=tool.meta,
    )


def _resources(listed: ResourceList, answering: Answering) -> dict[str, JsonValue]:
    if answering.templates:
        templates = [_resource(each, uri="uriTemplate") for each in listed.templates]
        return {"resourceTemplates": templates}
    own = [observation_resource()] if answering.observed else []
    return {"resources": [*own, *(_resource(each, uri="uri") for each in listed.resources)]}


def _resource(resource: ResourceInfo, *, uri: str) -> dict[str, JsonValue]:
    return {uri: resource.uri} | _present(
        name=resource.name,
        title=resource.title,
        description=resource.description,
        mimeType=resource.mime_type,
        size=resource.size_bytes,
        annotations=resource.annotations,
        icons=resource.icons,
        _meta=resource.meta,
    )


def _prompt(prompt: PromptInfo) -> dict[str, JsonValue]:
    return _present(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            {
                "name": argument.name,
                "description": argument.description,
                "required": argument.required,
            }
            for argument in prompt.arguments
        ],
        icons=prompt.icons,
        _meta=prompt.meta,
    )


def _present(**fields: Any) -> dict[str, JsonValue]:
    """Leaves out what is not there: MCP knows no nulls."""
    return {name: value for name, value in fields.items() if value is not None}
