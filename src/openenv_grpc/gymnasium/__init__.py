"""Gymnasium both ways: environments of servers for its users, its environments for servers."""

from openenv_grpc.gymnasium.remote import GymEnv
from openenv_grpc.gymnasium.remote_vector import GymVectorEnv
from openenv_grpc.gymnasium.served import GymEnvironment, gymnasium_environment

__all__ = ["GymEnv", "GymEnvironment", "GymVectorEnv", "gymnasium_environment"]
