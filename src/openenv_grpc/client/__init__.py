"""Clients: what a trainer or an agent written in Python drives an environment with."""

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.env_client import EnvClient
from openenv_grpc.client.generic_client import GenericAction, GenericEnvClient
from openenv_grpc.client.mcp_client import GenericMCPObservation, MCPClientBase, MCPToolClient
from openenv_grpc.client.providers import ContainerProvider, RuntimeProvider
from openenv_grpc.client.remote_session import Evaluation
from openenv_grpc.client.sync_client import SyncEnvClient
from openenv_grpc.client.sync_vector import SyncVectorEnvClient
from openenv_grpc.client.vector_client import VectorEnvClient
from openenv_grpc.client.vector_results import VectorStep

__all__ = [
    "AgentAccess",
    "ContainerProvider",
    "EnvClient",
    "Evaluation",
    "GenericAction",
    "GenericEnvClient",
    "GenericMCPObservation",
    "MCPClientBase",
    "MCPToolClient",
    "RuntimeProvider",
    "SyncEnvClient",
    "SyncVectorEnvClient",
    "VectorEnvClient",
    "VectorStep",
]
