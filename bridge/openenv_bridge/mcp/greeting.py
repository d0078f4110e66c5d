"""What a server tells of itself and of an environment when a client begins."""

from __future__ import annotations

from importlib.metadata import version

from openenv_bridge.mcp.codec import HANDLE
from openenv_bridge.mcp.messages import LEGACY_VERSIONS, MODERN_VERSIONS
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.types import JsonValue

SERVER_INFO_META = "io.modelcontextprotocol/serverInfo"

_OFFERED: dict[str, JsonValue] = {"tools": {}, "resources": {}, "prompts": {}}
_TOLD_OF: dict[str, JsonValue] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
}

_HANDLES = (
    f"Each tool takes {HANDLE}, which names a session. Leave it out with the first call: that "
    "begins a session, and its answer tells the name, which every later call has to pass."
)


def initialized(
    spec: EnvironmentSpec, *, asked: JsonValue, description: str, first: str
) -> dict[str, JsonValue]:
    """Makes the result of `initialize`."""
    result: dict[str, JsonValue] = {
        "protocolVersion": negotiated(asked),
        "capabilities": {
            **_TOLD_OF,
            "logging": {},
            "completions": {},
        },
        "serverInfo": server_info(spec),
    }
    return _instructed(result, description, _began(first))


def discovered(
    spec: EnvironmentSpec, *, description: str, first: str, handles: bool
) -> dict[str, JsonValue]:
    """Makes the result of `server/discover`."""
    result: dict[str, JsonValue] = {
        "supportedVersions": [*MODERN_VERSIONS],
        # Only a session has something to tell of.
        "capabilities": {**(_OFFERED if handles else _TOLD_OF), "completions": {}},
        "_meta": {SERVER_INFO_META: server_info(spec)},
    }
    return _instructed(result, description, _began(first), _HANDLES if handles else "")


def negotiated(asked: JsonValue) -> str:
    """Returns the version to speak with a client that asks for one."""
    return asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[-1]


def server_info(spec: EnvironmentSpec) -> dict[str, JsonValue]:
    """Names the server: by its environment, which is what a user looks for."""
    return {"name": spec.name, "version": version("openenv-grpc")}


def _began(first: str) -> str:
    return f"The episode has begun with this observation: {first}" if first else ""


def _instructed(result: dict[str, JsonValue], *parts: str) -> dict[str, JsonValue]:
    instructions = "\n\n".join(part for part in parts if part)
    return {**result, "instructions": instructions} if instructions else result
