"""`TaskService`: the tasks of an environment that has some, asked of an instance made for that."""

from __future__ import annotations

from typing import Any, TypeVar

import grpc

from openenv_grpc.errors import EnvironmentFailedError, InvalidRequestError, NotSupportedError
from openenv_grpc.operations import Kind, Operation, TaskQuery
from openenv_grpc.serialization import dump_json, json_kind, parse_json
from openenv_grpc.server.aborting import Context
from openenv_grpc.server.methods import method, time_for
from openenv_grpc.sessions import SessionHost, ask
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import payload_pb2, task_pb2
from openenv_grpc.wire.task_messages import TaskCodec

SERVICE = "openenv_grpc.v1.TaskService"

DEFAULT_PAGE = 100
MAX_PAGE = 1000

ValueT = TypeVar("ValueT")

_CODEC = TaskCodec()
_KINDS = {list: "an array", int: "an integer"}
_USES = ("train", "validation", "test")


class TaskMethods:
    """Lists splits and tasks."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    def handlers(self) -> grpc.GenericRpcHandler:
        """Makes the service."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ListSplits": method(task_pb2.ListSplitsRequest, self.list_splits),
                "CountTasks": method(task_pb2.CountTasksRequest, self.count_tasks),
                "GetTask": method(task_pb2.GetTaskRequest, self.get_task),
                "ListTasks": method(task_pb2.ListTasksRequest, self.list_tasks),
            },
        )

    async def list_splits(
        self, request: task_pb2.ListSplitsRequest, context: Context
    ) -> task_pb2.ListSplitsResponse:
        """Lists the splits."""
        splits = _checked(await self._ask(context, request.environment, "list_splits"), list)
        return task_pb2.ListSplitsResponse(splits=[_split(split) for split in splits])

    async def count_tasks(
        self, request: task_pb2.CountTasksRequest, context: Context
    ) -> task_pb2.CountTasksResponse:
        """Counts the tasks of a split."""
        count = await self._ask(context, request.environment, "num_tasks", request.split)
        return task_pb2.CountTasksResponse(task_count=_checked(count, int))

    async def get_task(
        self, request: task_pb2.GetTaskRequest, context: Context
    ) -> task_pb2.GetTaskResponse:
        """Gets one task."""
        if request.index < 0:
            raise InvalidRequestError("an index is at least 0")
        task = await self._ask(
            context, request.environment, "get_task", request.split, request.index
        )
        return task_pb2.GetTaskResponse(task=_payload(task))

    async def list_tasks(
        self, request: task_pb2.ListTasksRequest, context: Context
    ) -> task_pb2.ListTasksResponse:
        """Lists tasks, page by page. Reads one more than a page, to see whether there is more."""
        start, size = _page(request)
        stop = start + size + 1
        where = (context, request.environment)
        try:
            tasks = await self._ask(*where, "get_task_range", request.split, start, stop)
        except NotSupportedError:
            everything = await self._ask(*where, "list_tasks", request.split)
            tasks = _checked(everything, list)[start:stop]
        tasks = _checked(tasks, list)
        return task_pb2.ListTasksResponse(
            tasks=[_payload(task) for task in tasks[:size]],
            next_page_token=str(start + size) if len(tasks) > size else "",
        )

    async def _ask(
        self, context: Context, environment: str, method_name: str, *arguments: Any
    ) -> JsonValue:
        operation = Operation(
            kind=Kind.TASKS,
            codec=_CODEC,
            payload=TaskQuery(method=method_name, arguments=arguments),
            timeout_s=time_for(context),
        )
        async with self._host.transient(environment) as session:
            reply = await ask(session, operation)
        return parse_json(reply.written())


def _checked(value: JsonValue, kind: type[ValueT]) -> ValueT:
    """Returns what an environment answered, if it is what it has to be."""
    if type(value) is not kind:
        raise EnvironmentFailedError(
            f"the environment answered with {json_kind(value)} where {_KINDS[kind]} is due"
        )
    return value


def _page(request: task_pb2.ListTasksRequest) -> tuple[int, int]:
    if request.page_size < 0:
        raise InvalidRequestError("a page_size is at least 0")
    token = request.page_token
    if token and not (token.isascii() and token.isdigit() and len(token) < 16):
        raise InvalidRequestError("the page_token is none that this server gave")
    return int(token or 0), min(request.page_size or DEFAULT_PAGE, MAX_PAGE)


def _split(split: JsonValue) -> task_pb2.Split:
    details = split if isinstance(split, dict) else {"name": str(split)}
    name = str(details.get("name", ""))
    use = details.get("type", name if name in _USES else "validation")
    return task_pb2.Split(name=name, type=str(use), details=_payload(details))


def _payload(value: JsonValue) -> payload_pb2.Payload:
    return payload_pb2.Payload(json=dump_json(value, non_finite="strings").decode())
