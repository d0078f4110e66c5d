"""The codec of `TaskService`: what an environment tells of its tasks, as JSON."""

from __future__ import annotations

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.operations import Operation, Result, WritingCodec
from openenv_grpc.serialization import dump_json


class TaskCodec(WritingCodec):
    """Writes what a method of the environment returned as JSON."""

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the value. Raises `UnserializableResultError`."""
        return dump_json(result, non_finite="strings")
