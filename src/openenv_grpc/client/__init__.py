"""Clients: what a trainer or an agent written in Python drives an environment with."""

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.env_client import EnvClient
from openenv_grpc.client.events import Draining, Event, Progress, SessionLost, ToolCalled
from openenv_grpc.client.generic_client import GenericAction, GenericEnvClient
from openenv_grpc.client.mcp_client import GenericMCPObservation, MCPClientBase, MCPToolClient
from openenv_grpc.client.providers import ContainerProvider, RuntimeProvider
from openenv_grpc.client.remote_session import Evaluation
from openenv_grpc.client.sync_client import SyncEnvClient

__all__ = [
    "AgentAccess",
    "ContainerProvider",
    "Draining",
    "EnvClient",
    "Evaluation",
    "Event",
    "GenericAction",
    "GenericEnvClient",
    "GenericMCPObservation",
    "MCPClientBase",
    "MCPToolClient",
    "Progress",
    "RuntimeProvider",
    "SessionLost",
    "SyncEnvClient",
    "ToolCalled",
]
