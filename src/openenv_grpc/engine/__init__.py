"""Sessions in this process."""

from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.engine.manager import SessionManager
from openenv_grpc.engine.registry import EngineSettings

__all__ = ["EngineSettings", "EnvironmentDefinition", "SessionManager"]
