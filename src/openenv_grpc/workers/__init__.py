"""Several processes that are one server: `openenv-grpc serve --workers`."""

from openenv_grpc.workers.doors import WorkerDoors
from openenv_grpc.workers.serving import serve_workers
from openenv_grpc.workers.setup import Served

__all__ = ["Served", "WorkerDoors", "serve_workers"]
