"""Environments for training agents, served over gRPC, WebSocket, HTTP and MCP: the public face."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported when they are first asked for: see `_HOMES`
    from openenv_grpc.app import create_app, create_fastapi_app, create_web_interface_app
    from openenv_grpc.arrays import Array
    from openenv_grpc.client import (
        EnvClient,
        GenericAction,
        GenericEnvClient,
        MCPToolClient,
        SyncEnvClient,
        VectorEnvClient,
    )
    from openenv_grpc.definition import EnvironmentDefinition
    from openenv_grpc.environment import (
        Environment,
        Message,
        ModelTokenizer,
        SnapshotProvider,
        TaskProvider,
    )
    from openenv_grpc.errors import (
        ClientAnswerError,
        ClientCapabilityError,
        ConcurrencyConfigurationError,
        ConfigurationError,
        DeadlineExceededError,
        Effect,
        EnvironmentFactoryError,
        EnvironmentFailedError,
        InvalidActionError,
        OpenEnvError,
        Reason,
        SessionCapacityError,
        SessionNotFoundError,
        UnavailableError,
    )
    from openenv_grpc.mcp_environment import MCPEnvironment
    from openenv_grpc.rubrics import Rubric
    from openenv_grpc.serving import Server, serve
    from openenv_grpc.tools import (
        CallToolAction,
        CallToolObservation,
        ListToolsAction,
        ListToolsObservation,
        Media,
        Tool,
        ToolError,
        ToolErrorType,
        ToolOutcome,
        elicit,
        prompt,
        report_changed,
        report_log,
        report_progress,
        report_updated,
        resource,
        roots,
        sample,
        tool,
    )
    from openenv_grpc.transforms import CompositeTransform, NullTransform, Transform
    from openenv_grpc.types import (
        Action,
        Budgets,
        ConcurrencyConfig,
        EnvironmentMetadata,
        Observation,
        ServerMode,
        State,
        StepResult,
    )

__all__ = [
    "Action",
    "Array",
    "Budgets",
    "CallToolAction",
    "CallToolObservation",
    "ClientAnswerError",
    "ClientCapabilityError",
    "CompositeTransform",
    "ConcurrencyConfig",
    "ConcurrencyConfigurationError",
    "ConfigurationError",
    "DeadlineExceededError",
    "Effect",
    "EnvClient",
    "Environment",
    "EnvironmentDefinition",
    "EnvironmentFactoryError",
    "EnvironmentFailedError",
    "EnvironmentMetadata",
    "GenericAction",
    "GenericEnvClient",
    "InvalidActionError",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPEnvironment",
    "MCPToolClient",
    "Media",
    "Message",
    "ModelTokenizer",
    "NullTransform",
    "Observation",
    "OpenEnvError",
    "Reason",
    "Rubric",
    "Server",
    "ServerMode",
    "SessionCapacityError",
    "SessionNotFoundError",
    "SnapshotProvider",
    "State",
    "StepResult",
    "SyncEnvClient",
    "TaskProvider",
    "Tool",
    "ToolError",
    "ToolErrorType",
    "ToolOutcome",
    "Transform",
    "UnavailableError",
    "VectorEnvClient",
    "__version__",
    "create_app",
    "create_fastapi_app",
    "create_web_interface_app",
    "elicit",
    "prompt",
    "report_changed",
    "report_log",
    "report_progress",
    "report_updated",
    "resource",
    "roots",
    "sample",
    "serve",
    "tool",
]

__version__ = "0.1.0"

_HOMES = {
    "app": (
        "create_app",
        "create_fastapi_app",
        "create_web_interface_app",
    ),
    "arrays": ("Array",),
    "client": (
        "EnvClient",
        "GenericAction",
        "GenericEnvClient",
        "MCPToolClient",
        "SyncEnvClient",
        "VectorEnvClient",
    ),
    "definition": ("EnvironmentDefinition",),
    "environment": (
        "Environment",
        "Message",
        "ModelTokenizer",
        "SnapshotProvider",
        "TaskProvider",
    ),
    "errors": (
        "ClientAnswerError",
        "ClientCapabilityError",
        "ConcurrencyConfigurationError",
        "ConfigurationError",
        "DeadlineExceededError",
        "Effect",
        "EnvironmentFactoryError",
        "EnvironmentFailedError",
        "InvalidActionError",
        "OpenEnvError",
        "Reason",
        "SessionCapacityError",
        "SessionNotFoundError",
        "UnavailableError",
    ),
    "mcp_environment": ("MCPEnvironment",),
    "rubrics": ("Rubric",),
    "serving": (
        "Server",
        "serve",
    ),
    "tools": (
        "CallToolAction",
        "CallToolObservation",
        "ListToolsAction",
        "ListToolsObservation",
        "Media",
        "Tool",
        "ToolError",
        "ToolErrorType",
        "ToolOutcome",
        "elicit",
        "prompt",
        "report_changed",
        "report_log",
        "report_progress",
        "report_updated",
        "resource",
        "roots",
        "sample",
        "tool",
    ),
    "transforms": (
        "CompositeTransform",
        "NullTransform",
        "Transform",
    ),
    "types": (
        "Action",
        "Budgets",
        "ConcurrencyConfig",
        "EnvironmentMetadata",
        "Observation",
        "ServerMode",
        "State",
        "StepResult",
    ),
}
"""Names by the modules that they come from: who needs one waits for no other."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Imports one of the names, or of the modules, that are not there before they are asked for."""
    if name in _HOMES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = vars(import_module(f"{__name__}.{_HOME_OF[name]}"))[name]
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Lists them with the others."""
    return sorted({*globals(), *_HOME_OF})
