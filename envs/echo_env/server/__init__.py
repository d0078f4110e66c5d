"""The side of echo that runs in the server."""

from echo_env.server.echo_environment import EchoEnvironment

__all__ = ["EchoEnvironment"]
