"""Clients: what a trainer or an agent written in Python drives an environment with."""

import os

# Before anything imports grpc, which reads it then: else gRPC starts threads in a forked child,
# which crash it now and then. Nothing is lost, since the parent's gRPC does not work there anyway.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.env_client import EnvClient
from openenv_grpc.client.events import Draining, Event, Progress, SessionLost, ToolCalled
from openenv_grpc.client.generic_client import GenericAction, GenericEnvClient
from openenv_grpc.client.mcp_client import GenericMCPObservation, MCPClientBase, MCPToolClient
from openenv_grpc.client.outcomes import Evaluation
from openenv_grpc.client.providers import ContainerProvider, RuntimeProvider
from openenv_grpc.client.sync_client import SyncEnvClient
from openenv_grpc.client.sync_vector import SyncVectorEnvClient
from openenv_grpc.client.vector_client import VectorEnvClient
from openenv_grpc.client.vector_results import VectorStep

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
    "SyncVectorEnvClient",
    "ToolCalled",
    "VectorEnvClient",
    "VectorStep",
]
