"""`CatalogService`: what environments a server offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import grpc

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.serialization import dump_json
from openenv_grpc.server.aborting import Context
from openenv_grpc.server.methods import method
from openenv_grpc.sessions import SessionHost, SessionState
from openenv_grpc.types import EnvironmentMetadata
from openenv_grpc.v1 import catalog_pb2
from openenv_grpc.wire.budgets import fill_budgets
from openenv_grpc.wire.crew import fill_workers

SERVICE = "openenv_grpc.v1.CatalogService"

Doors = Callable[[str], Sequence[tuple[str, str]]]
"""Tells the protocols and URLs at which an environment can be reached."""


class CatalogMethods:
    """Describes environments."""

    def __init__(self, host: SessionHost, doors: Doors) -> None:
        self._host = host
        self._doors = doors

    def handlers(self) -> grpc.GenericRpcHandler:
        """Makes the service."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ListEnvironments": method(
                    catalog_pb2.ListEnvironmentsRequest, self.list_environments
                ),
                "GetEnvironment": method(catalog_pb2.GetEnvironmentRequest, self.get_environment),
            },
        )

    async def list_environments(
        self, request: catalog_pb2.ListEnvironmentsRequest, context: Context
    ) -> catalog_pb2.ListEnvironmentsResponse:
        """Lists the environments by name."""
        response = catalog_pb2.ListEnvironmentsResponse(environments=self._host.environments)
        fill_workers(response.workers, self._host.crew)
        return response

    async def get_environment(
        self, request: catalog_pb2.GetEnvironmentRequest, context: Context
    ) -> catalog_pb2.GetEnvironmentResponse:
        """Describes one environment."""
        spec = self._host.spec(request.environment)
        metadata = await self._host.metadata(spec.name)
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
            session.environment == spec.name and session.state is not SessionState.QUEUED
            for session in self._host.sessions()
        )
        message.mode = spec.mode.value
        _fill_capabilities(message.capabilities, spec)
        message.budgets.SetInParent()
        fill_budgets(message.budgets, spec.budgets)
        for protocol, uri in self._doors(spec.name):
            message.doors.add(protocol=protocol, uri=uri)


def _fill_capabilities(message: catalog_pb2.Capabilities, spec: EnvironmentSpec) -> None:
    message.concurrent_sessions = spec.concurrent_sessions
    message.tools = spec.has_tools
    message.tasks = spec.has_tasks
    message.snapshots = spec.snapshots
    message.requires_reset = spec.requires_reset
    message.isolation = spec.isolation
