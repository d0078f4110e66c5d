"""The options of `serve`, in groups. A new one is a field of its group, and said to the server."""

from openenv_grpc.cli.serve_options.doors import DoorOptions
from openenv_grpc.cli.serve_options.environments import EnvironmentOptions
from openenv_grpc.cli.serve_options.limits import LimitOptions
from openenv_grpc.cli.serve_options.logs import LogOptions
from openenv_grpc.cli.serve_options.protection import ProtectionOptions
from openenv_grpc.cli.serve_options.sessions import SessionOptions
from openenv_grpc.cli.serve_options.target import TargetOptions
from openenv_grpc.cli.serve_options.workers import WorkerOptions

__all__ = [
    "DoorOptions",
    "EnvironmentOptions",
    "LimitOptions",
    "LogOptions",
    "ProtectionOptions",
    "SessionOptions",
    "TargetOptions",
    "WorkerOptions",
]
