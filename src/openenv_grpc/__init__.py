"""Environments for training agents, served over gRPC, WebSocket, HTTP and MCP: the public face."""

from openenv_grpc.app import create_app, create_fastapi_app, create_web_interface_app
from openenv_grpc.client import (
    EnvClient,
    GenericAction,
    GenericEnvClient,
    MCPToolClient,
    SyncEnvClient,
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
    "Budgets",
    "CallToolAction",
    "CallToolObservation",
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
    "__version__",
    "create_app",
    "create_fastapi_app",
    "create_web_interface_app",
    "serve",
    "tool",
]

__version__ = "0.1.0"
