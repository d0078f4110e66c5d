"""`create_app` and its kin, and what they make under an ASGI server."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn

import openenv_grpc
from echo_env.models import EchoAction, EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv_grpc.app import App, create_app, create_fastapi_app, create_web_interface_app
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.types import ConcurrencyConfig, ServerMode, State

FACTORIES = ("create_app", "create_fastapi_app", "create_web_interface_app")


class OwnState(State):
    pass


class Greeting(EchoObservation):
    pass


def test_an_app_describes_its_environment() -> None:
    app = create_app(
        EchoEnvironment,
        EchoAction,
        EchoObservation,
        env_name="mine",
        max_concurrent_envs=3,
        state_cls=OwnState,
        mode="production",
        reset_observation_cls=Greeting,
    )

    definition = app.definition
    assert definition.factory is EchoEnvironment
    assert definition.action_type is EchoAction
    assert definition.observation_type is EchoObservation
    assert definition.reset_observation_type is Greeting
    assert definition.state_type is OwnState
    assert definition.name == "mine"
    assert definition.max_sessions == 3
    assert definition.mode is ServerMode.PRODUCTION


def test_the_order_of_arguments_is_the_references_for_each() -> None:
    by_app = create_app(EchoEnvironment, EchoAction, EchoObservation, "mine", 3).definition
    by_page = create_web_interface_app(
        EchoEnvironment, EchoAction, EchoObservation, "mine", 3
    ).definition
    by_fastapi = create_fastapi_app(
        EchoEnvironment, EchoAction, EchoObservation, 3, None, "mine"
    ).definition

    assert by_app == by_page == by_fastapi
    assert by_app.name == "mine"


@pytest.mark.reference
@pytest.mark.parametrize("name", FACTORIES)
def test_signatures_are_the_references(reference_python: Path, name: str) -> None:
    script = (
        "import inspect, json, openenv.core.env_server as server;"
        f"parameters = inspect.signature(server.{name}).parameters.values();"
        "print(json.dumps([[p.name, p.kind.name] for p in parameters]))"
    )

    run = subprocess.run(
        [reference_python, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    ours = inspect.signature(getattr(openenv_grpc, name)).parameters.values()
    assert [[p.name, p.kind.name] for p in ours] == json.loads(run.stdout)


def test_a_concurrency_config_gives_limit_and_timeout() -> None:
    config = ConcurrencyConfig(max_concurrent_envs=4, session_timeout=60.0)

    definition = create_app(
        EchoEnvironment, EchoAction, EchoObservation, concurrency_config=config
    ).definition

    assert (definition.max_sessions, definition.session_timeout_s) == (4, 60.0)


def test_an_instance_is_refused() -> None:
    with pytest.raises(TypeError, match="write EchoEnvironment, without parentheses"):
        create_app(EchoEnvironment(), EchoAction, EchoObservation)  # type: ignore[arg-type]


def test_two_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        create_app(EchoEnvironment, EchoAction, EchoObservation, None, 2, ConcurrencyConfig())


def test_the_mode_is_that_of_the_variable_unless_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_MODE", "production")

    assert create_app(EchoEnvironment, EchoAction, EchoObservation).definition.mode == "production"
    assert (
        create_app(EchoEnvironment, EchoAction, EchoObservation, mode="simulation").definition.mode
        == "simulation"
    )


def test_a_mode_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_MODE", "dreaming")

    with pytest.raises(ConfigurationError, match="there is no mode 'dreaming'"):
        create_app(EchoEnvironment, EchoAction, EchoObservation)


def test_a_web_page_that_is_asked_for_is_missed_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "true")

    with caplog.at_level(logging.WARNING):
        create_app(EchoEnvironment, EchoAction, EchoObservation, custom_tab_name="Mine")
        create_web_interface_app(EchoEnvironment, EchoAction, EchoObservation, gradio_builder=print)

    assert len(caplog.records) == 2
    assert all(
        "no web page" in record.message or "has none" in record.message for record in caplog.records
    )


class TellingServer(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


Host = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def host() -> Host:
    """Runs an app under uvicorn, as a ported `server/app.py` does, and tells its URL."""

    @asynccontextmanager
    async def host(app: App, **options: Any) -> AsyncIterator[str]:
        server = TellingServer(
            uvicorn.Config(app, log_level="error", ws="websockets-sansio", **options)
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                async with asyncio.timeout(10):
                    await server.listening.wait()
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                await serving

    return host


@pytest.fixture
def app() -> App:
    return create_app(EchoEnvironment, EchoAction, EchoObservation, env_name="echo_env")


async def test_requests_pass_through_an_asgi_server(host: Host, app: App) -> None:
    async with host(app) as url, aiohttp.ClientSession() as http:
        async with http.post(f"{url}/reset", json={"seed": 1}) as response:
            reset = await response.json()
        async with http.post(f"{url}/step", json={"action": {"message": "hi"}}) as response:
            step = await response.json()
        async with http.get(f"{url}/nowhere") as response:
            missing = response.status
        async with http.post(f"{url}/step", json={"action": {}}) as response:
            refused = response.status

    assert reset["observation"]["echoed_message"] == "Echo environment ready!"
    assert step["reward"] == pytest.approx(0.2)
    assert (missing, refused) == (404, 422)


async def test_a_socket_passes_through_with_its_session(host: Host, app: App) -> None:
    async with (
        host(app) as url,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws") as ws,
    ):
        await ws.send_json({"type": "reset", "data": {"episode_id": "mine"}})
        await ws.receive_json(timeout=5)
        await ws.send_json({"type": "step", "data": {"message": "hello"}})
        step = await ws.receive_json(timeout=5)
        await ws.send_json({"type": "state"})
        state = await ws.receive_json(timeout=5)

    assert step["data"]["observation"]["echoed_message"] == "hello"
    assert (state["data"]["episode_id"], state["data"]["step_count"]) == ("mine", 1)


async def test_the_close_code_of_a_socket_passes_through(host: Host, app: App) -> None:
    async with (
        host(app) as url,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws") as ws,
    ):
        await ws.send_json({"type": "close"})
        frame = await ws.receive(timeout=5)

    assert frame.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    assert ws.close_code == 1000


async def test_the_subprotocol_of_a_socket_passes_through(host: Host, app: App) -> None:
    async with (
        host(app) as url,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws", protocols=["openenv-grpc.v1"]) as ws,
    ):
        assert ws.protocol == "openenv-grpc.v1"


async def test_a_refused_handshake_is_refused(host: Host, app: App) -> None:
    async with host(app) as url, aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(f"{url}/nowhere")

    assert caught.value.status == 403


async def test_an_app_asks_for_the_token_of_its_environment(
    host: Host, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_TOKEN", "the-trainers-token")
    async with host(app) as url, aiohttp.ClientSession() as http:
        async with http.post(f"{url}/reset") as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{url}/ws")
        headers = {"Authorization": "Bearer the-trainers-token"}
        async with http.post(f"{url}/reset", headers=headers) as response:
            assert response.status == 200
        protocols = ["openenv-grpc.json", "openenv-grpc.bearer.the-trainers-token"]
        async with http.ws_connect(f"{url}/ws", protocols=protocols) as socket:
            assert socket.protocol == "openenv-grpc.json"


async def test_an_app_answers_whatever_host_its_server_is_asked_for(host: Host, app: App) -> None:
    async with host(app) as url, aiohttp.ClientSession(headers={"Host": "lab.example"}) as http:
        async with http.post(f"{url}/reset") as response:
            assert response.status == 200
        async with http.ws_connect(f"{url}/ws"):
            pass
        async with http.post(f"{url}/reset", headers={"Origin": "http://lab.example"}) as response:
            assert response.status == 403


async def test_a_socket_that_breaks_off_ends_its_session(host: Host) -> None:
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Watched(EchoEnvironment):
        def close(self) -> None:
            loop.call_soon_threadsafe(closed.set)

    async with (
        host(create_app(Watched, EchoAction, EchoObservation)) as url,
        aiohttp.ClientSession() as http,
    ):
        ws = await http.ws_connect(f"{url}/ws")
        await ws.send_json({"type": "reset"})
        await ws.receive_json(timeout=5)
        ws._writer.transport.abort()
        async with asyncio.timeout(5):
            await closed.wait()


async def test_an_environment_that_cannot_be_served_fails_the_start() -> None:
    app = create_app(object, EchoAction, EchoObservation)
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        messages.append(message)

    await app({"type": "lifespan"}, receive, send)

    assert messages[0]["type"] == "lifespan.startup.failed"
    assert "no environment" in messages[0]["message"]


async def test_a_request_before_the_start_says_what_is_wrong(host: Host, app: App) -> None:
    with pytest.raises(ConfigurationError, match="turn its lifespan protocol on"):
        await app({"type": "http"}, None, None)  # type: ignore[arg-type]
