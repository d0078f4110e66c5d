"""The reference's HTTP routes: each request builds its own environment, uses it once, closes it."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openenv_bridge.environments import requested
from openenv_bridge.responses import error_response, json_response, read_body
from openenv_bridge.ws_messages import observation_fields, state_fields
from openenv_grpc.arrays import FOR_JSON
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    Effect,
    EnvironmentFailedError,
    InvalidRequestError,
    OpenEnvError,
    UnserializableResultError,
)
from openenv_grpc.events import log_event
from openenv_grpc.operations import (
    Kind,
    Observed,
    Operation,
    ResetArguments,
    Result,
    StateRead,
    StepArguments,
    ToolCall,
)
from openenv_grpc.serialization import dump_json, model_fields
from openenv_grpc.sessions import SessionHost, ask
from openenv_grpc.types import JsonValue, ServerMode

logger = logging.getLogger(__name__)

HEALTHY = b'{"status":"healthy"}'
UNHEALTHY = b'{"status":"unhealthy"}'


class ResetRequest(BaseModel):
    """Body of `POST /reset`. Other keys go to the environment's `reset`."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    seed: int | None = Field(default=None, ge=0, description="Makes the episode repeatable")
    episode_id: str | None = Field(
        default=None, max_length=255, description="Name of the new episode"
    )


class StepRequest(BaseModel):
    """Body of `POST /step`. Other keys go to the environment's `step`."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    action: dict[str, Any] = Field(description="The action, as the schema describes it")
    timeout_s: float | None = Field(
        default=None, gt=0, description="How long the step may take, for the environment to heed"
    )
    request_id: str | None = Field(
        default=None, max_length=255, description="For the environment to know the request by"
    )


class HttpCodec:
    """Reads and writes the operations of stateless requests."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Takes what the route has read."""
        return ResetArguments(keywords=operation.payload)

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Takes what the route has read."""
        arguments: StepArguments = operation.payload
        return arguments

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Refuses: tools are called on `/mcp`."""
        raise InvalidRequestError("tools are called on /mcp")

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the response's body."""
        match result:
            case Observed(reward=reward):
                fields = {"metadata": None, **observation_fields(result)}
                fields["reward"] = None if reward is None else float(reward)
                return dump_json(fields)
            case StateRead(state=state):
                return dump_json(self._declared_state(state, spec))
            case _:
                raise UnserializableResultError(f"HTTP has no {operation.kind.value}")

    def _declared_state(self, state: object, spec: EnvironmentSpec) -> dict[str, JsonValue]:
        """Passes a state through the declared class: its fields, its defaults."""
        try:
            return model_fields(
                spec.state_type.model_validate(state_fields(state)), context=FOR_JSON
            )
        except ValidationError as error:
            raise UnserializableResultError(
                f"the state does not fit {spec.state_type.__name__}", effect=Effect.DONE
            ) from error

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes nothing: the route answers with the error itself."""
        return b""


HTTP_CODEC = HttpCodec()


class HttpRoutes:
    """`/reset`, `/step`, `/state`, `/schema`, `/metadata` and `/health`."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def reset(self, request: web.Request) -> web.Response:
        """Starts an episode that nobody can go on with: a look at the first observation."""
        spec = self._trainable(request)
        body = await read_body(request, ResetRequest, optional=True)
        return await self._once(spec, Kind.RESET, body.model_dump(exclude_unset=True))

    async def step(self, request: web.Request) -> web.Response:
        """Applies an action to a new environment."""
        spec = self._trainable(request)
        body = await read_body(request, StepRequest)
        arguments = StepArguments(
            action=_read_action(spec, body.action),
            keywords=body.model_dump(exclude_unset=True, exclude={"action"}),
        )
        return await self._once(spec, Kind.STEP, arguments)

    async def state(self, request: web.Request) -> web.Response:
        """Tells the state of a new environment."""
        return await self._once(self._trainable(request), Kind.STATE)

    async def schema(self, request: web.Request) -> web.Response:
        """Tells what actions, observations and states look like."""
        return json_response(dump_json(requested(self._host, request).schemas))

    async def metadata(self, request: web.Request) -> web.Response:
        """Tells what the environment is."""
        metadata = await self._host.metadata(requested(self._host, request).name)
        return json_response(dump_json(metadata))

    async def health(self, request: web.Request) -> web.Response:
        """Tells whether the server takes new work. Builds nothing."""
        if not self._host.serving:
            return json_response(UNHEALTHY, status=503)
        return json_response(HEALTHY)

    def _trainable(self, request: web.Request) -> EnvironmentSpec:
        """Finds the environment; in production mode the trainer's routes do not exist."""
        spec = requested(self._host, request)
        if spec.mode is ServerMode.PRODUCTION:
            raise web.HTTPNotFound
        return spec

    async def _once(
        self, spec: EnvironmentSpec, kind: Kind, payload: object = None
    ) -> web.Response:
        operation = Operation(kind=kind, codec=HTTP_CODEC, payload=payload)
        async with self._host.transient(spec.name) as session:
            reply = await ask(session, operation)
        if reply.error is not None:
            return error_response(reply.error)
        return json_response(reply.content)


def _read_action(spec: EnvironmentSpec, value: JsonValue) -> Any:
    """Reads an action before anything is built, as the reference does."""
    try:
        return spec.action_reader.from_value(value)
    except OpenEnvError:
        raise
    except BaseException as error:  # a validator may raise anything, even what ends an event loop
        kind = type(error).__name__
        log_event(logger, logging.ERROR, "action not read", error=error, environment=spec.name)
        raise EnvironmentFailedError(f"{kind} while the action was read") from error
