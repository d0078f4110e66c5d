"""The services around sessions: catalog, tasks, administration."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from openenv_grpc.engine import SessionManager
from openenv_grpc.server import GrpcServer
from openenv_grpc.sessions import Wait
from openenv_grpc.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    catalog_pb2,
    catalog_pb2_grpc,
    episode_pb2,
    episode_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from tests.environments import Described


async def code(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return str(caught.value.code().name)


async def test_the_catalog_lists_the_default_environment_first(channel: grpc.aio.Channel) -> None:
    stub: Any = catalog_pb2_grpc.CatalogServiceStub(channel)
    listed = await stub.ListEnvironments(catalog_pb2.ListEnvironmentsRequest())
    assert listed.environments[0] == "countdown"
    assert "toolbox" in listed.environments


async def test_the_catalog_describes_an_environment(
    channel: grpc.aio.Channel, server: GrpcServer
) -> None:
    stub: Any = catalog_pb2_grpc.CatalogServiceStub(channel)
    request = catalog_pb2.GetEnvironmentRequest(environment="described")
    built = Described.built
    described = (await stub.GetEnvironment(request)).environment
    await stub.GetEnvironment(request)
    assert Described.built == built + 1  # told once, then known
    assert (described.name, described.description, described.version) == (
        "described", "A countdown", "2",
    )  # fmt: skip
    assert "by" in json.loads(described.action_schema_json)["properties"]
    assert "left" in json.loads(described.observation_schema_json)["properties"]
    assert "step_count" in json.loads(described.state_schema_json)["properties"]
    assert (described.session_limit, described.session_count) == (120, 0)
    assert (described.mode, described.capabilities.isolation) == ("simulation", "thread")
    assert described.capabilities.concurrent_sessions
    assert [(door.protocol, door.uri) for door in described.doors] == [
        ("grpc", f"127.0.0.1:{server.ports[0]}")
    ]
    assert described.budgets == catalog_pb2.Budgets()
    assert await code(
        stub.GetEnvironment(catalog_pb2.GetEnvironmentRequest(environment="chess"))
    ) == "NOT_FOUND"  # fmt: skip


async def test_tasks_are_listed_and_fetched(
    channel: grpc.aio.Channel, host: SessionManager
) -> None:
    stub: Any = task_pb2_grpc.TaskServiceStub(channel)
    splits = await stub.ListSplits(task_pb2.ListSplitsRequest(environment="tasks"))
    assert [(split.name, split.type) for split in splits.splits] == [
        ("train", "train"), ("test", "test"),
    ]  # fmt: skip
    where = {"environment": "tasks", "split": "train"}
    got = await stub.GetTask(task_pb2.GetTaskRequest(**where, index=1))
    assert got.task.json == '{"id":"train-1"}'
    page = await stub.ListTasks(task_pb2.ListTasksRequest(**where))
    assert [task.json for task in page.tasks] == ['{"id":"train-0"}']
    assert page.next_page_token == ""
    assert host.sessions() == []


@pytest.mark.parametrize("page_size", [0, 100, 249, 250, 2000])
async def test_pages_of_tasks_join_to_all_of_them(
    channel: grpc.aio.Channel, page_size: int
) -> None:
    stub: Any = task_pb2_grpc.TaskServiceStub(channel)
    request = task_pb2.ListTasksRequest(environment="many_tasks", page_size=page_size)
    counted = await stub.CountTasks(task_pb2.CountTasksRequest(environment="many_tasks"))
    found = []
    while True:
        page = await stub.ListTasks(request)
        assert len(page.tasks) <= (page_size or 100)
        found.extend(json.loads(task.json)["id"] for task in page.tasks)
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    assert found == list(range(counted.task_count))


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("ListSplits", task_pb2.ListSplitsRequest(environment="odd_tasks"), "ABORTED"),
        ("CountTasks", task_pb2.CountTasksRequest(environment="odd_tasks"), "ABORTED"),
        ("CountTasks", task_pb2.CountTasksRequest(environment="tasks"), "UNIMPLEMENTED"),
        ("ListSplits", task_pb2.ListSplitsRequest(environment="countdown"), "UNIMPLEMENTED"),
        ("ListSplits", task_pb2.ListSplitsRequest(environment="chess"), "NOT_FOUND"),
        ("GetTask", task_pb2.GetTaskRequest(environment="tasks", index=7), "NOT_FOUND"),
        ("GetTask", task_pb2.GetTaskRequest(environment="tasks", index=-1), "INVALID_ARGUMENT"),
        (
            "ListTasks",
            task_pb2.ListTasksRequest(environment="tasks", page_token="x"),
            "INVALID_ARGUMENT",
        ),
        (
            "ListTasks",
            task_pb2.ListTasksRequest(environment="tasks", page_size=-1),
            "INVALID_ARGUMENT",
        ),
    ],
)
async def test_a_task_request_that_cannot_be_served_ends_with_a_status(
    channel: grpc.aio.Channel, method: str, request_: Any, expected: str
) -> None:
    stub: Any = task_pb2_grpc.TaskServiceStub(channel)
    assert await code(getattr(stub, method)(request_)) == expected


async def test_an_operator_lists_and_closes_sessions(channel: grpc.aio.Channel) -> None:
    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    admin: Any = admin_pb2_grpc.AdminServiceStub(channel)
    opened = await episodes.Open(episode_pb2.OpenRequest())
    (session,) = (await admin.ListSessions(admin_pb2.ListSessionsRequest())).sessions
    assert session.session_id == opened.session_id
    assert session.state == admin_pb2.SESSION_STATE_READY
    assert session.HasField("idle_time")
    assert session.peer.startswith("ipv4:127.0.0.1")
    request = admin_pb2.CloseSessionRequest(session_id=opened.session_id)
    await admin.CloseSession(request)
    step = episode_pb2.GetStateRequest(session_id=opened.session_id)
    assert await code(episodes.GetState(step)) == "NOT_FOUND"
    assert await code(admin.CloseSession(admin_pb2.CloseSessionRequest(session_id="x"))) == (
        "NOT_FOUND"
    )


async def test_draining_refuses_new_sessions_and_episodes_and_lets_the_old_go_on(
    channel: grpc.aio.Channel,
) -> None:
    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    admin: Any = admin_pb2_grpc.AdminServiceStub(channel)
    session = (await episodes.Open(episode_pb2.OpenRequest())).session_id
    await episodes.Reset(episode_pb2.ResetRequest(session_id=session))
    assert (await admin.Drain(admin_pb2.DrainRequest())).session_count == 1
    step = episode_pb2.StepRequest(session_id=session)
    step.action.json = "{}"
    assert (await episodes.Step(step)).reward == 1.0
    assert await code(episodes.Reset(episode_pb2.ResetRequest(session_id=session))) == "UNAVAILABLE"
    assert await code(episodes.Open(episode_pb2.OpenRequest())) == "UNAVAILABLE"


async def test_a_drain_may_take_no_time_but_not_less(channel: grpc.aio.Channel) -> None:
    admin: Any = admin_pb2_grpc.AdminServiceStub(channel)
    negative = admin_pb2.DrainRequest(limit_timeout={"seconds": -1})
    assert await code(admin.Drain(negative)) == "INVALID_ARGUMENT"
    await admin.Drain(admin_pb2.DrainRequest(limit_timeout={"seconds": 0}))


async def test_a_session_that_waits_is_listed_and_not_counted(
    channel: grpc.aio.Channel, host: SessionManager
) -> None:
    host.lease("lonely", peer="first")
    host.lease("lonely", peer="second", wait=Wait())
    admin: Any = admin_pb2_grpc.AdminServiceStub(channel)
    listed = (await admin.ListSessions(admin_pb2.ListSessionsRequest())).sessions
    assert [(session.peer, session.state) for session in listed] == [
        ("first", admin_pb2.SESSION_STATE_OPENING),
        ("second", admin_pb2.SESSION_STATE_QUEUED),
    ]
    catalog: Any = catalog_pb2_grpc.CatalogServiceStub(channel)
    request = catalog_pb2.GetEnvironmentRequest(environment="lonely")
    assert (await catalog.GetEnvironment(request)).environment.session_count == 1
