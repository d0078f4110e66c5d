"""The task routes: what an environment can be asked to do, split by split."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from openenv_bridge.environments import requested
from openenv_bridge.http_routes import HttpCodec
from openenv_bridge.responses import detail, error_response, json_response, read_body
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import Reason
from openenv_grpc.operations import Kind, Operation, Result, TaskQuery
from openenv_grpc.serialization import dump_json
from openenv_grpc.sessions import SessionHost, ask
from openenv_grpc.types import JsonValue

SPLIT_TYPES = frozenset({"train", "validation", "test"})


class SplitRequest(BaseModel):
    """Body of the routes about one split."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    split: str


class TaskRequest(SplitRequest):
    """Body of `POST /NAME/task`."""

    index: int


class TaskRangeRequest(SplitRequest):
    """Body of `POST /NAME/task_range`."""

    start: int | None = None
    stop: int | None = None


def split_fields(split: Any) -> JsonValue:
    """Describes a split the way the reference does, whatever the environment calls it."""
    match split:
        case dict() | BaseModel():
            return split
        case str():
            return {"name": split, "type": split if split in SPLIT_TYPES else "validation"}
        case _:
            return {"name": str(split), "type": "validation"}


class TaskCodec(HttpCodec):
    """Writes what the task methods answer."""

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the response's body."""
        query: TaskQuery = operation.payload
        match query.method:
            case "list_splits":
                return dump_json([split_fields(split) for split in _listed(result)])
            case "list_tasks":
                return dump_json({"tasks": result, "env_name": spec.name})
            case "num_tasks":
                return dump_json({"num_tasks": result})
            case "get_task":
                return dump_json({"task": result})
            case _:
                return dump_json({"tasks": result})


def _listed(result: Any) -> list[Any]:
    return list(result)


TASK_CODEC = TaskCodec()


class TaskRoutes:
    """`/list_environments`, `/NAME/splits`, `/NAME/tasks`, `/NAME/num_tasks`, `/NAME/task…`."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def list_environments(self, request: web.Request) -> web.Response:
        """Names the environments."""
        return json_response(dump_json(list(self._host.environments)))

    async def splits(self, request: web.Request) -> web.Response:
        """Lists the splits."""
        return await self._ask(request, TaskQuery(method="list_splits"))

    async def tasks(self, request: web.Request) -> web.Response:
        """Lists the tasks of a split."""
        body = await read_body(request, SplitRequest)
        return await self._ask(request, TaskQuery(method="list_tasks", arguments=(body.split,)))

    async def num_tasks(self, request: web.Request) -> web.Response:
        """Counts the tasks of a split."""
        body = await read_body(request, SplitRequest)
        return await self._ask(request, TaskQuery(method="num_tasks", arguments=(body.split,)))

    async def task(self, request: web.Request) -> web.Response:
        """Tells one task."""
        body = await read_body(request, TaskRequest)
        return await self._ask(
            request, TaskQuery(method="get_task", arguments=(body.split, body.index))
        )

    async def task_range(self, request: web.Request) -> web.Response:
        """Tells some tasks that follow one another."""
        body = await read_body(request, TaskRangeRequest)
        arguments = (body.split, body.start, body.stop)
        return await self._ask(request, TaskQuery(method="get_task_range", arguments=arguments))

    async def _ask(self, request: web.Request, query: TaskQuery) -> web.Response:
        spec = requested(self._host, request)
        operation = Operation(kind=Kind.TASKS, codec=TASK_CODEC, payload=query)
        async with self._host.transient(spec.name) as session:
            reply = await ask(session, operation)
        if reply.error is None:
            return json_response(reply.content)
        match reply.error.reason:
            case Reason.NOT_SUPPORTED:
                return detail(f"{query.method} is not supported for this environment", 501)
            case Reason.TASK_NOT_FOUND:
                return detail("Invalid task index", 400)
            case _:
                return error_response(reply.error)
