"""Where the bridge differs from the reference on purpose: what holds instead."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.bridge import serve_vectors, vector_environments
from tests.bridge.conftest import Serve, no_sessions, talk

PROFILES = serve_vectors.profiles(vector_environments)


@pytest.mark.parametrize("text", ["[]", "42", "null", '"s"'])
async def test_a_frame_that_is_no_object_is_refused_and_the_session_lives(
    serve: Serve, text: str
) -> None:
    async with serve(PROFILES["probe-sim"]) as served, served.ws() as socket:
        await socket.send_str(text)
        answer = await socket.receive_json(timeout=10)
        assert answer["data"]["code"] == "VALIDATION_ERROR"
        assert (await talk(socket, type="state"))["type"] == "state"


async def test_a_binary_frame_is_refused_and_the_session_lives(serve: Serve) -> None:
    async with serve(PROFILES["probe-sim"]) as served, served.ws() as socket:
        await socket.send_bytes(b"{}")
        answer = await socket.receive_json(timeout=10)
        assert answer["data"]["code"] == "INVALID_JSON"
        assert (await talk(socket, type="state"))["type"] == "state"


async def test_a_custom_validators_error_is_told_and_the_session_lives(serve: Serve) -> None:
    async with serve(PROFILES["probe-sim"]) as served, served.ws() as socket:
        answer = await talk(socket, type="step", data={"text": "forbidden"})
        assert answer["data"]["code"] == "VALIDATION_ERROR"
        assert answer["data"]["message"] == "Invalid message"
        assert answer["data"]["errors"][0]["msg"] == "Value error, text is forbidden"
        assert (await talk(socket, type="step", data={"text": "a"}))["type"] == "observation"


async def test_a_custom_validators_error_is_422_over_http(serve: Serve) -> None:
    async with (
        serve(PROFILES["probe-sim"]) as served,
        served.http.post(served.url + "/step", json={"action": {"text": "forbidden"}}) as response,
    ):
        assert response.status == 422
        detail = (await response.json())["detail"][0]
        assert detail["type"] == "value_error"
        assert detail["loc"] == ["text"]
        assert detail["msg"] == "Value error, text is forbidden"


async def test_a_validation_error_inside_the_environment_is_the_environments(
    serve: Serve,
) -> None:
    async with serve(PROFILES["probe-sim"]) as served, served.ws() as socket:
        answer = await talk(socket, type="step", data={"text": "y", "op": "badmodel"})
        assert answer["data"]["code"] == "EXECUTION_ERROR"
        assert "turn" in answer["data"]["message"]


@pytest.mark.parametrize(("text", "payload"), [("ndarray", [1, 2]), ("npint", 3)])
async def test_arrays_and_numpy_scalars_become_lists_and_numbers(
    serve: Serve, text: str, payload: Any
) -> None:
    action = {"text": text, "op": "payload"}
    async with serve(PROFILES["probe-sim"]) as served, served.ws() as socket:
        answer = await talk(socket, type="step", data=action)
        assert answer["data"]["observation"]["payload"] == payload
        async with served.http.post(served.url + "/step", json={"action": action}) as response:
            assert response.status == 200
            assert (await response.json())["observation"]["payload"] == payload


async def test_what_cannot_be_serialised_is_an_error_and_the_step_has_happened(
    serve: Serve,
) -> None:
    async with serve(PROFILES["probe-sim"]) as served, served.ws() as socket:
        answer = await talk(socket, type="step", data={"text": "object", "op": "payload"})
        assert answer["data"]["code"] == "EXECUTION_ERROR"
        assert (await talk(socket, type="state"))["data"]["step_count"] == 1


@pytest.mark.parametrize(
    "frame",
    [{"type": "reset"}, {"type": "step", "data": {"tool_name": "add"}}, {"type": "state"}],
    ids=["reset", "step", "state"],
)
async def test_production_mode_refuses_what_is_the_trainers(
    serve: Serve, frame: dict[str, Any]
) -> None:
    async with serve(PROFILES["tools-prod"]) as served, served.ws() as socket:
        answer = await talk(socket, **frame)
        assert answer["data"]["code"] == "EXECUTION_ERROR"
        assert "production" in answer["data"]["message"]


async def test_production_mode_takes_mcp_frames(serve: Serve) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    request["params"] = {"name": "add", "arguments": {"a": 1, "b": 2}}
    async with serve(PROFILES["tools-prod"]) as served, served.ws() as socket:
        answer = await talk(socket, type="mcp", data=request)
        assert answer["data"]["result"]["data"] == 3


async def test_a_sockets_session_closed_over_http_ends_the_socket(serve: Serve) -> None:
    create = {"jsonrpc": "2.0", "id": 4, "method": "openenv/session/create"}
    async with serve(PROFILES["tools-sim"]) as served, served.ws() as socket:
        created = await talk(socket, type="mcp", data=create)
        session_id = created["data"]["result"]["session_id"]
        await talk(socket, type="state")  # so that the environment stands
        closed = await served.rpc("openenv/session/close", session_id=session_id)
        assert closed["result"] == {"session_id": session_id, "closed": False, "closing": True}
        frame = await socket.receive_json(timeout=10)
        assert frame["data"]["code"] == "SESSION_ERROR"
        assert (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1000


@pytest.mark.parametrize(
    ("profile", "name", "arguments", "answer"),
    [
        ("tools-sim", "sim_only", {"x": 1}, "1 False"),
        ("tools-prod", "prod_only", {"y": "z"}, "z"),
    ],
)
async def test_a_tool_of_the_servers_mode_is_listed_and_called(
    serve: Serve, profile: str, name: str, arguments: dict[str, Any], answer: str
) -> None:
    async with serve(PROFILES[profile]) as served:
        listed = (await served.rpc("tools/list"))["result"]["tools"]
        assert name in [tool["name"] for tool in listed]
        called = await served.rpc("tools/call", name=name, arguments=arguments)
        assert called["result"]["data"] == answer


async def test_a_tool_of_the_other_mode_is_unknown(serve: Serve) -> None:
    async with serve(PROFILES["tools-sim"]) as served:
        called = await served.rpc("tools/call", name="prod_only", arguments={"y": "z"})
        assert called["error"]["code"] == -32603


async def test_a_batch_is_one_error_and_the_socket_lives(serve: Serve) -> None:
    batch = '[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]'
    async with serve(PROFILES["tools-sim"]) as served:
        async with served.http.post(served.url + "/mcp", data=batch) as response:
            assert (await response.json())["error"]["code"] == -32600
        async with served.ws("/mcp") as socket:
            await socket.send_str(batch)
            assert (await socket.receive_json(timeout=10))["error"]["code"] == -32600
            answer = await talk(socket, jsonrpc="2.0", id=1, method="tools/list")
            assert answer["id"] == 1
            assert "result" in answer


async def test_a_refused_request_gets_its_id_back(serve: Serve) -> None:
    async with serve(PROFILES["tools-sim"]) as served:
        request = {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": []}
        async with served.http.post(served.url + "/mcp", json=request) as response:
            answer = await response.json()
        assert answer["id"] == 9
        assert answer["error"]["code"] == -32600


async def test_the_slot_of_a_client_that_left_during_a_step_comes_free(serve: Serve) -> None:
    async with serve(PROFILES["probe-sim"]) as served:
        socket = await served.ws()
        action = {"text": "a", "op": "sleep", "amount": 200}
        await socket.send_str(json.dumps({"type": "step", "data": action}))
        await socket.close()
        await no_sessions(served.manager)


async def rpc(served: Any, **request: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, **request}
    async with served.http.post(served.url + "/mcp", json=body) as response:
        answer: dict[str, Any] = await response.json()
        return answer


async def test_an_environment_without_tools_has_one_that_acts(serve: Serve) -> None:
    call = {"name": "act", "arguments": {"text": "hello"}}
    async with serve(PROFILES["probe-sim"]) as served:
        listed = await rpc(served, method="tools/list")
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["act"]
        by_http = await rpc(served, method="tools/call", params=call)
        assert by_http["result"]["data"]["text"] == "hello"
        async with served.ws() as socket:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            framed = await talk(socket, type="mcp", data=request)
            assert framed["data"]["result"] == by_http["result"]
        unknown = await rpc(served, method="tools/call", params={"name": "x"})
        assert unknown["error"]["code"] == -32603
        assert "act" in unknown["error"]["message"]
