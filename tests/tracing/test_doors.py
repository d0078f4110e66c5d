"""One trace from the call of a client, through every door, to the environment."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc.aio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from openenv_grpc import GenericEnvClient, MCPToolClient, Server, VectorEnvClient
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import EnvironmentFailedError, InvalidActionError
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc
from tests.environments import AsyncCountdown, Count, Countdown, Counted, InlineCountdown, Toolbox
from tests.tracing.conftest import Spans

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
ANOTHER = f"00-{TRACE_ID}-00f067aa0ba902b8-01"


class Telling(Countdown):
    """Makes a span of its own in every step, and fails if it is told to."""

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        with trace.get_tracer("author").start_as_current_span("thinking"):
            if action.text == "raise":
                raise ValueError("no such move")
            return super().step(action, timeout_s)


class AsyncTelling(AsyncCountdown):
    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        with trace.get_tracer("author").start_as_current_span("thinking"):
            return await super().step_async(action, timeout_s)


class InlineTelling(Telling, InlineCountdown):
    pass


def definition(factory: Any, **options: Any) -> EnvironmentDefinition:
    return EnvironmentDefinition(
        factory=factory, action_type=Count, observation_type=Counted, **options
    )


@pytest.fixture
async def server(spans: Spans) -> AsyncIterator[Server]:
    environments = [definition(each) for each in (Telling, AsyncTelling, InlineTelling, Toolbox)]
    async with Server(*environments, grpc_port=0, http_port=0) as server:
        yield server


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


@pytest.mark.parametrize("scheme", ["grpc", "ws"])
@pytest.mark.parametrize("environment", ["Telling", "AsyncTelling", "InlineTelling"])
async def test_one_trace_leads_from_a_clients_call_to_what_an_environment_does(
    server: Server, spans: Spans, scheme: str, environment: str
) -> None:
    address = server.grpc_address if scheme == "grpc" else server.http_address
    async with GenericEnvClient(f"{scheme}://{address}", environment=environment) as client:
        await client.reset()
        with trace.get_tracer("trainer").start_as_current_span("rollout") as rollout:
            await client.step({"by": 1})

    called = spans.named("openenv step", SpanKind.CLIENT)
    served = spans.named("openenv step", SpanKind.SERVER)
    done = spans.named(f"{environment} step")
    thought = spans.named("thinking")
    assert parent_of(called) == rollout.get_span_context().span_id
    assert parent_of(served) == id_of(called)
    assert parent_of(done) == id_of(served)
    assert parent_of(thought) == id_of(done)
    assert len({span.context.trace_id for span in (called, served, done, thought)}) == 1


async def test_every_step_of_a_vector_client_has_a_span(server: Server, spans: Spans) -> None:
    async with VectorEnvClient(f"grpc://{server.grpc_address}", 2) as envs:
        await envs.reset()
        with trace.get_tracer("trainer").start_as_current_span("rollout") as rollout:
            await envs.step([{"by": 1}, {"by": 1}])

    steps = [span for span in spans.ended() if span.name == "openenv step"]
    called = [span for span in steps if span.kind is SpanKind.CLIENT]
    served = [span for span in steps if span.kind is SpanKind.SERVER]
    assert [parent_of(span) for span in called] == [rollout.get_span_context().span_id] * 2
    assert {parent_of(span) for span in served} == {id_of(span) for span in called}


@pytest.mark.parametrize("call", ["open", "reset", "state", "evaluate", "close"])
async def test_every_call_of_a_client_is_below_its_own_span(
    server: Server, spans: Spans, call: str
) -> None:
    async with GenericEnvClient(f"grpc://{server.grpc_address}") as client:
        await client.reset()
        await client.state()
        await client.evaluate()

    called = spans.named(f"openenv {call}", SpanKind.CLIENT)
    assert parent_of(spans.named(f"openenv {call}", SpanKind.SERVER)) == id_of(called)


async def test_tools_are_called_in_the_trace_of_their_caller(server: Server, spans: Spans) -> None:
    async with MCPToolClient(f"grpc://{server.grpc_address}", environment="Toolbox") as client:
        await client.call_tool("add", a=1, b=2)

    called = spans.named("openenv call_tool", SpanKind.CLIENT)
    served = spans.named("openenv call_tool", SpanKind.SERVER)
    assert parent_of(served) == id_of(called)
    assert parent_of(spans.named("Toolbox call_tool")) == id_of(served)


async def test_a_span_tells_session_environment_and_number(server: Server, spans: Spans) -> None:
    async with GenericEnvClient(f"grpc://{server.grpc_address}") as client:
        await client.reset()
        access = await client.agent_access()

    told = spans.named("openenv reset", SpanKind.SERVER).attributes
    assert told == {
        "openenv.session_id": access.session_id,
        "openenv.environment": "Telling",
        "openenv.request_id": 2,
    }
    called = spans.named("openenv reset", SpanKind.CLIENT).attributes
    assert called == {"server.address": server.grpc_address}


async def test_what_an_environment_raises_is_on_all_spans_and_its_traceback_on_its_own(
    server: Server, spans: Spans
) -> None:
    async with GenericEnvClient(f"grpc://{server.grpc_address}") as client:
        await client.reset()
        with pytest.raises(EnvironmentFailedError):
            await client.step({"text": "raise"})

    failed = [span for span in spans.ended() if span.name.endswith(" step")]
    assert len(failed) == 3
    for span in failed:
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes is not None
        assert span.attributes["error.type"] == "ENVIRONMENT_FAILED"
    (event,) = spans.named("Telling step").events
    assert event.attributes is not None
    assert 'raise ValueError("no such move")' in str(event.attributes["exception.stacktrace"])


async def test_an_action_that_does_not_fit_ends_the_spans_with_its_reason(
    server: Server, spans: Spans
) -> None:
    async with GenericEnvClient(f"grpc://{server.grpc_address}") as client:
        await client.reset()
        with pytest.raises(InvalidActionError):
            await client.step({"by": "many"})

    told = spans.named("openenv step", SpanKind.SERVER).attributes
    assert told is not None
    assert told["error.type"] == "INVALID_ACTION"


async def test_unary_calls_are_below_the_span_of_their_metadata(
    server: Server, spans: Spans
) -> None:
    assert server.grpc_address is not None
    sent = (("traceparent", TRACEPARENT),)
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        stub: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
        opened = await stub.Open(episode_pb2.OpenRequest(), metadata=sent)
        await stub.Reset(episode_pb2.ResetRequest(session_id=opened.session_id), metadata=sent)

    for name in ("openenv open", "openenv reset"):
        assert parent_of(spans.named(name, SpanKind.SERVER)) == int(PARENT_ID, 16)


@pytest.mark.parametrize(
    ("method", "path", "body", "operation"),
    [
        ("POST", "/reset", {}, "reset"),
        ("POST", "/step", {"action": {"by": 1}}, "step"),
        ("GET", "/state", None, "state"),
        (
            "POST",
            "/Toolbox/mcp",
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
            "list_tools",
        ),
    ],
    ids=["reset", "step", "state", "mcp"],
)
async def test_requests_over_http_are_below_the_span_of_their_headers(
    server: Server, spans: Spans, method: str, path: str, body: Any, operation: str
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method,
            f"http://{server.http_address}{path}",
            json=body,
            headers={"traceparent": TRACEPARENT},
        ) as response,
    ):
        assert response.status == 200

    served = spans.named(f"openenv {operation}", SpanKind.SERVER)
    assert parent_of(served) == int(PARENT_ID, 16)


@pytest.mark.parametrize("path", ["/ws", "/Toolbox/mcp"])
async def test_json_sockets_are_below_the_span_of_their_handshake(
    server: Server, spans: Spans, path: str
) -> None:
    ask = (
        {"type": "reset"}
        if path == "/ws"
        else {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    )
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://{server.http_address}{path}", headers={"traceparent": TRACEPARENT}
        ) as socket,
    ):
        await socket.send_json(ask)
        await socket.receive_json()

    operation = "reset" if path == "/ws" else "list_tools"
    served = spans.named(f"openenv {operation}", SpanKind.SERVER)
    assert parent_of(served) == int(PARENT_ID, 16)
    assert parent_of(spans.named("openenv open", SpanKind.SERVER)) == int(PARENT_ID, 16)


async def test_a_json_frame_may_name_a_span_of_its_own(server: Server, spans: Spans) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://{server.http_address}/ws", headers={"traceparent": TRACEPARENT}
        ) as socket,
    ):
        await socket.send_str(json.dumps({"type": "reset", "traceparent": ANOTHER}))
        assert (await socket.receive_json())["type"] == "observation"

    assert parent_of(spans.named("openenv reset", SpanKind.SERVER)) == int(ANOTHER[36:52], 16)


async def test_a_span_that_cannot_be_read_is_taken_for_none(server: Server, spans: Spans) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"http://{server.http_address}/reset", json={}, headers={"traceparent": "nonsense"}
        ) as response,
    ):
        assert response.status == 200

    assert spans.named("openenv reset", SpanKind.SERVER).parent is None
