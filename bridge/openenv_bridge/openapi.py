"""`/openapi.json`, `/docs`, `/redoc`: the HTTP routes, for people and for tools."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from openenv_bridge.http_routes import ResetRequest, StepRequest
from openenv_bridge.jsonrpc import JsonRpcRequest
from openenv_bridge.responses import json_response
from openenv_bridge.tasks import SplitRequest, TaskRangeRequest, TaskRequest
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.serialization import dump_json
from openenv_grpc.sessions import SessionHost
from openenv_grpc.types import EnvironmentMetadata, JsonValue, ServerMode

TITLE = "OpenEnv Environment HTTP API"
VERSION = "1.0.0"

DESCRIPTION = """\
Each request to `/reset`, `/step` and `/state` builds an environment of its own, so nothing \
carries over from one to the next. To go through an episode, open the WebSocket `/ws` and send \
JSON frames, \
`{"type": "reset"}`, `{"type": "step", "data": {…}}`, `{"type": "state"}`, `{"type": "close"}`, or \
use a client.
"""

CONTROL = "Environment Control"
STATE = "State Management"
INFO = "Environment Info"
SCHEMA = "Schema"
HEALTH = "Health"
TASK = "Task API"

NAMED = {"type": "object", "additionalProperties": True}
ANSWERED: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "observation": {"type": "object", "description": "What the agent sees"},
        "reward": {"type": ["number", "null"], "description": "Reward, null for no verdict"},
        "done": {"type": "boolean", "description": "Whether the episode is over"},
        "metadata": {"type": ["object", "null"]},
        "truncated": {"type": "boolean", "description": "Present if the episode was cut short"},
    },
    "required": ["observation", "reward", "done", "metadata"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route, as far as the document tells."""

    path: str
    method: str
    summary: str
    tags: tuple[str, ...] = ()
    body: type[BaseModel] | None = None
    body_optional: bool = False
    answer: dict[str, JsonValue] | None = None


def _routes(spec: EnvironmentSpec) -> list[Route]:
    """Lists the routes of one environment, without its name in front."""
    always = [
        Route(
            path="/metadata",
            method="get",
            summary="Tells what the environment is",
            tags=(INFO,),
            answer=EnvironmentMetadata.model_json_schema(),
        ),
        Route(path="/schema", method="get", summary="JSON Schemas", tags=(SCHEMA,), answer=NAMED),
        Route(
            path="/health",
            method="get",
            summary="Tells whether the server takes new work",
            tags=(HEALTH,),
            answer={"type": "object", "properties": {"status": {"type": "string"}}},
        ),
        Route(path="/mcp", method="post", summary="JSON-RPC: the tools", body=JsonRpcRequest),
    ]
    if spec.mode is ServerMode.PRODUCTION:
        return always
    trainer = [
        Route(
            path="/reset",
            method="post",
            summary="Starts an episode",
            tags=(CONTROL,),
            body=ResetRequest,
            body_optional=True,
            answer=ANSWERED,
        ),
        Route(
            path="/step",
            method="post",
            summary="Applies an action",
            tags=(CONTROL,),
            body=StepRequest,
            answer=ANSWERED,
        ),
        Route(
            path="/state",
            method="get",
            summary="Tells the state",
            tags=(STATE,),
            answer=spec.schemas["state"],
        ),
    ]
    return trainer + always


def _task_routes(spec: EnvironmentSpec) -> list[Route]:
    tags = (INFO, TASK)
    prefix = f"/{spec.name}"
    bodies: list[tuple[str, str, type[BaseModel]]] = [
        ("tasks", "Lists the tasks of a split", SplitRequest),
        ("num_tasks", "Counts the tasks of a split", SplitRequest),
        ("task", "Tells one task", TaskRequest),
        ("task_range", "Tells some tasks that follow one another", TaskRangeRequest),
    ]
    return [
        Route(path=f"{prefix}/splits", method="get", summary="Lists the splits", tags=tags),
        *(
            Route(path=f"{prefix}/{name}", method="post", summary=summary, tags=tags, body=body)
            for name, summary, body in bodies
        ),
    ]


def document(host: SessionHost, *, grpc_address: str | None = None) -> dict[str, JsonValue]:
    """Returns the OpenAPI document of a server."""
    paths: dict[str, dict[str, JsonValue]] = {}
    for number, spec in enumerate(host.environments.values()):
        own = [] if number else [("", route) for route in _routes(spec)]
        named = (
            [(f"/{spec.name}", route) for route in _routes(spec)]
            if len(host.environments) > 1
            else []
        )
        for prefix, route in [*own, *named, *(("", route) for route in _task_routes(spec))]:
            paths.setdefault(prefix + route.path, {})[route.method] = _operation(route)
    paths["/list_environments"] = {
        "get": _operation(
            Route(
                path="",
                method="get",
                summary="Names the environments",
                tags=(INFO, TASK),
                answer={"type": "array", "items": {"type": "string"}},
            )
        )
    }
    description = DESCRIPTION
    if grpc_address is not None:
        description += f"\nThe same environments are served over gRPC at `{grpc_address}`.\n"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": VERSION,
            "description": description,
            "license": {"name": "BSD-3-Clause"},
        },
        "tags": [{"name": name} for name in (CONTROL, STATE, INFO, SCHEMA, HEALTH)],
        "paths": paths,
        "components": {
            "schemas": {
                f"{spec.name}.{kind}": schema
                for spec in host.environments.values()
                for kind, schema in spec.schemas.items()
            }
        },
    }


def _operation(route: Route) -> dict[str, JsonValue]:
    operation: dict[str, Any] = {"summary": route.summary, "responses": {"200": _answer(route)}}
    if route.tags:
        operation["tags"] = list(route.tags)
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": route.body.model_json_schema()}},
        }
        operation["responses"]["422"] = {"description": "The body was refused"}
    return operation


def _answer(route: Route) -> dict[str, JsonValue]:
    schema = route.answer if route.answer is not None else {}
    return {"description": "Done", "content": {"application/json": {"schema": schema}}}


class DocumentRoutes:
    """Hands out the document, and a page that shows it and needs nothing from elsewhere."""

    def __init__(self, host: SessionHost, *, grpc_address: str | None) -> None:
        self._host, self._grpc_address = host, grpc_address

    @cached_property
    def _document(self) -> bytes:
        return dump_json(document(self._host, grpc_address=self._grpc_address))

    @cached_property
    def _page(self) -> str:
        return resources.files("openenv_bridge").joinpath("docs.html").read_text("utf-8")

    async def openapi(self, request: web.Request) -> web.Response:
        """Hands out the document."""
        return json_response(self._document)

    async def docs(self, request: web.Request) -> web.Response:
        """Hands out the page."""
        return web.Response(text=self._page, content_type="text/html")
