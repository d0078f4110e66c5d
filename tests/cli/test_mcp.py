"""`mcp`: an environment over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp
import mcp_types
import pytest

from openenv_grpc import GenericEnvClient, Server
from openenv_grpc.errors import SessionClosedError
from tests.environments import Countdown

CHECKOUT = Path(__file__).parents[2]
COUNTDOWN = "tests.environments:Countdown"
TOKEN = "token-of-the-tests"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "openenv_grpc.cli", "mcp", *arguments]


@dataclass
class Process:
    """The command, as a client that writes by hand runs it."""

    process: asyncio.subprocess.Process

    def send(self, method: str, call_id: int | None = None, **params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if call_id is not None:
            message["id"] = call_id
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            return json.loads(await self.process.stdout.readline())

    async def ask(self, method: str, **params: Any) -> Any:
        self.send(method, 1, **params)
        return await self.receive()

    def answer(self, call_id: Any, result: Any) -> None:
        message = {"jsonrpc": "2.0", "id": call_id, "result": result}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def initialize(self, **capabilities: Any) -> Any:
        return await self.ask("initialize", protocolVersion="2025-11-25", capabilities=capabilities)

    async def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(60):
            return await self.process.wait()


Start = Callable[..., AbstractAsyncContextManager[Process]]


@pytest.fixture
def start() -> Start:
    @asynccontextmanager
    async def start(*arguments: str, **variables: str) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec(
            *command(*arguments),
            cwd=CHECKOUT,
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield Process(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    return start


async def play(*arguments: str, mode: Any) -> list[int]:
    program, *rest = command(*arguments)
    served = mcp.StdioServerParameters(
        command=program, args=rest, env=dict(os.environ), cwd=CHECKOUT
    )
    async with mcp.Client(served, mode=mode) as client:
        assert client.instructions is not None
        assert '"left":3' in client.instructions
        left = []
        for _ in range(3):
            result = await client.call_tool("act", {"by": 1})
            left.append(result.structured_content["left"])
        return left


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_plays_an_episode_in_an_environment_that_it_starts(mode: str) -> None:
    assert await play(COUNTDOWN, mode=mode) == [2, 1, 0]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_plays_an_episode_on_a_server(scheme: str, mode: str) -> None:
    target = "tests.environments:Countdown"
    async with Server("echo_env", target, grpc_port=0, http_port=0, tokens=TOKEN) as server:
        address = server.http_address if scheme == "http" else server.grpc_address
        options = ("--env", Countdown.__name__, "--token", TOKEN)
        assert await play(f"{scheme}://{address}", *options, mode=mode) == [2, 1, 0]
        assert server._manager.sessions() == []


@pytest.mark.parametrize("scheme", ["unix", "http+unix"])
async def test_a_client_plays_an_episode_on_a_server_behind_a_unix_socket(
    tmp_path: Path, scheme: str
) -> None:
    paths = {"unix": tmp_path / "grpc.sock", "http+unix": tmp_path / "http.sock"}
    async with Server(
        COUNTDOWN, grpc_port=None, http_port=0, unix=paths["unix"], http_unix=paths["http+unix"]
    ):
        assert await play(f"{scheme}:{paths[scheme]}", mode="auto") == [2, 1, 0]


async def test_what_an_environment_prints_disturbs_no_message(start: Start, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "from openenv_grpc import MCPEnvironment, Observation\n"
        "from openenv_grpc.tools import tool\n"
        "class Loud(MCPEnvironment):\n"
        "    def reset(self, seed=None, episode_id=None, **kwargs):\n"
        "        print('reset!', flush=True)\n"
        "        return Observation()\n"
        "    @tool\n"
        "    def shout(self) -> str:\n"
        "        '''Shouts.'''\n"
        "        print('shout!', flush=True)\n"
        "        return 'shouted'\n",
        encoding="utf-8",
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    async with start("loud:Loud", PYTHONPATH=path) as client:
        assert "result" in await client.initialize()
        called = await client.ask("tools/call", name="shout", arguments={})
        assert called["result"]["content"][0]["text"] == "shouted"
        assert await client.end() == 0


async def test_calls_under_way_are_answered_in_any_order_and_notices_come_between(
    start: Start,
) -> None:
    async with start("tests.environments:Library") as client:
        await client.initialize()
        client.send("notifications/initialized")
        meta = {"progressToken": "t"}
        client.send("tools/call", 2, name="work", arguments={"steps": 2}, _meta=meta)
        told = [await client.receive() for _ in range(4)]
        assert [each["method"] for each in told[:3]] == [
            "notifications/progress",
            "notifications/progress",
            "notifications/message",
        ]
        assert told[3]["id"] == 2
        client.send("ping", 3)
        client.send("tools/list", 4)
        assert {(await client.receive())["id"] for _ in range(2)} == {3, 4}


async def test_arguments_that_stand_in_headers_need_not_be_known_to_the_client(
    start: Start,
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with start("tests.bridge.dialects.mirroring:Mirroring") as client:
        for region in ("us-west1", "世界"):
            called = await client.ask(
                "tools/call", name="query", arguments={"region": region, "limit": 3}, _meta=meta
            )
            assert called["result"]["structuredContent"] == {"result": f"{region} 3 False"}


async def test_what_is_no_message_is_refused_and_the_next_is_taken(start: Start) -> None:
    async with start("echo_env") as client:
        assert client.process.stdin is not None
        client.process.stdin.write(b"{nonsense\n\n")
        assert (await client.receive())["error"]["code"] == -32700
        assert "result" in await client.initialize()


async def test_a_session_that_was_lost_is_told_and_another_begins(start: Start) -> None:
    async with (
        Server(COUNTDOWN, grpc_port=None, http_port=0) as server,
        start(f"http://{server.http_address}") as client,
    ):
        await client.initialize()
        await client.ask("tools/call", name="act", arguments={"by": 2})
        [session] = server._manager.sessions()
        server._manager.end_session(session.session_id, SessionClosedError("ended"))
        lost = await client.ask("tools/call", name="act", arguments={"by": 1})
        assert "Another has begun" in lost["error"]["message"]
        called = await client.ask("tools/call", name="act", arguments={"by": 1})
        assert called["result"]["structuredContent"]["left"] == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
async def test_ctrl_c_ends_it_while_nothing_is_written(start: Start) -> None:
    async with start("echo_env") as client:
        await client.initialize()
        client.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            assert await client.process.wait() == 130
        assert client.process.stderr is not None
        assert await client.process.stderr.read() == b""


async def test_a_server_that_cannot_be_reached_is_told(start: Start) -> None:
    async with start("http://127.0.0.1:9") as client:
        assert "cannot be reached" in (await client.initialize())["error"]["message"]


async def test_a_server_that_has_mcp_for_agents_tokens_alone_is_told(start: Start) -> None:
    async with (
        Server(COUNTDOWN, grpc_port=0, http_port=0, agent_tokens=True) as server,
        start(f"grpc://{server.grpc_address}") as client,
    ):
        assert client.process.stderr is not None
        assert b"--token-file" in await client.process.stderr.readline()
        assert await client.end() == 2


async def test_a_client_is_told_why_the_server_refuses_it(start: Start) -> None:
    async with Server(COUNTDOWN, grpc_port=0, http_port=0, tokens=TOKEN) as server:
        url = f"http://{server.http_address}/mcp"
        async with start(url, "--token", "wrong") as client:
            refused = await client.ask("initialize", protocolVersion="2025-11-25")
            assert "401: the token is not valid" in refused["error"]["message"]


async def test_an_agents_token_is_enough_for_its_session(start: Start, tmp_path: Path) -> None:
    async with (
        Server(COUNTDOWN, grpc_port=0, http_port=0, agent_tokens=True) as server,
        GenericEnvClient(f"grpc://{server.grpc_address}") as trainer,
    ):
        await trainer.reset()
        token = tmp_path / "token"
        token.write_text((await trainer.agent_access()).token, encoding="utf-8")
        async with start(f"http://{server.http_address}", "--token-file", str(token)) as client:
            await client.initialize()
            called = await client.ask("tools/call", name="act", arguments={"by": 2})
            assert called["result"]["structuredContent"]["left"] == 1
        assert (await trainer.state())["step_count"] == 1


async def test_an_environment_that_is_not_there_is_one_line(start: Start) -> None:
    async with start("no_such_env") as client:
        assert client.process.stderr is not None
        line = await client.process.stderr.readline()
        assert line.startswith(b"openenv-grpc: ")
        assert await client.end() == 2


async def test_a_tool_asks_the_client_and_its_answer_comes_back(start: Start) -> None:
    async with start("tests.environments:Curious") as process:
        await process.initialize(elicitation={})
        process.send("tools/call", 7, name="greet", arguments={})
        asked = await process.receive()
        assert asked["method"] == "elicitation/create"
        process.answer(asked["id"], {"action": "accept", "content": {"name": "Ada"}})
        told = await process.receive()
        assert (told["id"], told["result"]["content"][0]["text"]) == (7, "hello Ada")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_clients_answer_what_tools_ask(mode: Any) -> None:
    async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})

    program, *arguments = command("tests.environments:Curious")
    server = mcp.StdioServerParameters(
        command=program, args=arguments, env=dict(os.environ), cwd=CHECKOUT
    )
    async with (
        asyncio.timeout(60),
        mcp.Client(server, mode=mode, elicitation_callback=answer) as client,
    ):
        told = await client.call_tool("greet_twice", {})
        assert told.content[0].text == "hello Ada hello Ada"


async def test_what_is_told_between_calls_is_handed_on(start: Start) -> None:
    async with start("tests.environments:Curious") as process, asyncio.timeout(60):
        await process.initialize()
        told: set[str] = set()
        while "notifications/tools/list_changed" not in told:  # it may not be listened to yet
            process.send("tools/call", 1, name="learn", arguments={})
            while "id" not in (message := await process.receive()):
                told.add(message["method"])
