"""Echo: the smallest environment with tools. It gives back what it is told."""

from echo_env.client import EchoEnv
from echo_env.models import EchoAction, EchoObservation
from openenv_grpc import CallToolAction, ListToolsAction

__all__ = ["CallToolAction", "EchoAction", "EchoEnv", "EchoObservation", "ListToolsAction"]
