"""The codec of `TaskService`: what an environment tells of its tasks, as JSON."""

from __future__ import annotations

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InternalError, OpenEnvError
from openenv_grpc.operations import Operation, ResetArguments, Result, StepArguments, ToolCall
from openenv_grpc.serialization import dump_json


class TaskCodec:
    """Writes what a method of the environment returned as JSON, and reads nothing."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Refuses: task requests reset nothing."""
        raise InternalError("the task service has no reset")

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Refuses: task requests step nothing."""
        raise InternalError("the task service has no step")

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Refuses: task requests call no tools."""
        raise InternalError("the task service has no tools")

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the value. Raises `UnserializableResultError`."""
        return dump_json(result, non_finite="strings")

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes nothing: a failed call ends with a status."""
        return b""
