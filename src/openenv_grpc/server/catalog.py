"""`CatalogService`: what environments a server offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.protobuf import duration_pb2

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.serialization import dump_json
from openenv_grpc.server.aborting import Context, abort
from openenv_grpc.sessions import EnvironmentSpec, SessionHost
from openenv_grpc.types import EnvironmentMetadata
from openenv_grpc.v1 import catalog_pb2, catalog_pb2_grpc

Doors = Callable[[str], Sequence[tuple[str, str]]]
"""Tells the protocols and URLs at which an environment can be reached."""


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Describes environments."""

    def __init__(self, host: SessionHost, doors: Doors) -> None:
        self._host = host
        self._doors = doors

    async def ListEnvironments(  # noqa: N802  # the name is the proto's
        self, request: catalog_pb2.ListEnvironmentsRequest, context: Context
    ) -> catalog_pb2.ListEnvironmentsResponse:
        """Lists the environments by name."""
        return catalog_pb2.ListEnvironmentsResponse(environments=self._host.environments)

    async def GetEnvironment(  # noqa: N802  # the name is the proto's
        self, request: catalog_pb2.GetEnvironmentRequest, context: Context
    ) -> catalog_pb2.GetEnvironmentResponse:
        """Describes one environment."""
        try:
            spec = self._host.spec(request.environment)
            metadata = await self._host.metadata(spec.name)
        except OpenEnvError as error:
            await abort(context, error)
        response = catalog_pb2.GetEnvironmentResponse()
        self._describe(response.environment, spec, metadata)
        return response

    def _describe(
        self,
        message: catalog_pb2.Environment,
        spec: EnvironmentSpec,
        metadata: EnvironmentMetadata,
    ) -> None:
        message.name = spec.name
        message.description = metadata.description
        message.version = metadata.version or ""
        message.author = metadata.author or ""
        message.documentation_uri = metadata.documentation_url or ""
        message.readme = metadata.readme_content or ""
        message.action_schema_json = dump_json(spec.schemas["action"]).decode()
        message.observation_schema_json = dump_json(spec.schemas["observation"]).decode()
        message.state_schema_json = dump_json(spec.schemas["state"]).decode()
        message.session_limit = spec.session_limit
        message.session_count = sum(
            session.environment == spec.name for session in self._host.sessions()
        )
        message.mode = spec.mode.value
        _fill_capabilities(message.capabilities, spec)
        _fill_budgets(message.budgets, spec)
        for protocol, uri in self._doors(spec.name):
            message.doors.add(protocol=protocol, uri=uri)


def _fill_capabilities(message: catalog_pb2.Capabilities, spec: EnvironmentSpec) -> None:
    message.concurrent_sessions = spec.concurrent_sessions
    message.tools = spec.has_tools
    message.tasks = spec.has_tasks
    message.requires_reset = spec.requires_reset
    message.isolation = spec.isolation


def _fill_budgets(message: catalog_pb2.Budgets, spec: EnvironmentSpec) -> None:
    message.SetInParent()
    for seconds, field in (
        (spec.budgets.reset_s, message.reset_timeout),
        (spec.budgets.step_s, message.step_timeout),
        (spec.budgets.close_s, message.close_timeout),
    ):
        if seconds is not None:
            _set_duration(field, seconds)


def _set_duration(message: duration_pb2.Duration, seconds: float) -> None:
    message.FromNanoseconds(round(seconds * 1e9))
    message.SetInParent()
