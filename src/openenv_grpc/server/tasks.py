"""`TaskService`: the tasks of an environment that has some, asked of an instance made for that."""

from __future__ import annotations

from typing import Any

from openenv_grpc.errors import InvalidRequestError, NotSupportedError, OpenEnvError
from openenv_grpc.serialization import dump_json, parse_json
from openenv_grpc.server.aborting import Context, abort
from openenv_grpc.sessions import Kind, Operation, SessionHost, TaskQuery, ask
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import payload_pb2, task_pb2, task_pb2_grpc
from openenv_grpc.wire.task_messages import TaskCodec

DEFAULT_PAGE = 100
MAX_PAGE = 1000

_CODEC = TaskCodec()
_USES = ("train", "validation", "test")


class TaskServicer(task_pb2_grpc.TaskServiceServicer):
    """Lists splits and tasks."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def ListSplits(  # noqa: N802  # the name is the proto's
        self, request: task_pb2.ListSplitsRequest, context: Context
    ) -> task_pb2.ListSplitsResponse:
        """Lists the splits."""
        splits = await self._ask(context, request.environment, "list_splits")
        return task_pb2.ListSplitsResponse(splits=[_split(split) for split in splits])

    async def CountTasks(  # noqa: N802  # the name is the proto's
        self, request: task_pb2.CountTasksRequest, context: Context
    ) -> task_pb2.CountTasksResponse:
        """Counts the tasks of a split."""
        count = await self._ask(context, request.environment, "num_tasks", request.split)
        return task_pb2.CountTasksResponse(task_count=count)

    async def GetTask(  # noqa: N802  # the name is the proto's
        self, request: task_pb2.GetTaskRequest, context: Context
    ) -> task_pb2.GetTaskResponse:
        """Gets one task."""
        if request.index < 0:
            await abort(context, InvalidRequestError("an index is at least 0"))
        task = await self._ask(
            context, request.environment, "get_task", request.split, request.index
        )
        return task_pb2.GetTaskResponse(task=_payload(task))

    async def ListTasks(  # noqa: N802  # the name is the proto's
        self, request: task_pb2.ListTasksRequest, context: Context
    ) -> task_pb2.ListTasksResponse:
        """Lists tasks, page by page. Reads one more than a page, to see whether there is more."""
        try:
            start, size = _page(request)
            stop = start + size + 1
            try:
                tasks = await self._query(
                    context, request.environment, "get_task_range", request.split, start, stop
                )
            except NotSupportedError:
                everything = await self._query(
                    context, request.environment, "list_tasks", request.split
                )
                tasks = everything[start:stop]
        except OpenEnvError as error:
            await abort(context, error)
        more = len(tasks) > size
        return task_pb2.ListTasksResponse(
            tasks=[_payload(task) for task in tasks[:size]],
            next_page_token=str(start + size) if more else "",
        )

    async def _ask(self, context: Context, environment: str, method: str, *arguments: Any) -> Any:
        try:
            return await self._query(context, environment, method, *arguments)
        except OpenEnvError as error:
            await abort(context, error)

    async def _query(self, context: Context, environment: str, method: str, *arguments: Any) -> Any:
        operation = Operation(
            kind=Kind.TASKS,
            codec=_CODEC,
            payload=TaskQuery(method=method, arguments=arguments),
            timeout_s=context.time_remaining(),
        )
        async with self._host.transient(environment) as session:
            reply = await ask(session, operation)
        if reply.error is not None:
            raise reply.error
        return parse_json(reply.content)


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
