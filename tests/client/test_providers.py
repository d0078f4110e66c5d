from __future__ import annotations

import pytest

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import InvalidRequestError, UnavailableError


class Container:
    """A container provider for a server that runs already."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[str] = []

    def start_container(self) -> str:
        self.calls.append("start")
        return self.url

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        self.calls.append(f"wait {base_url == self.url}")

    def stop_container(self) -> None:
        self.calls.append("stop")


class Runtime:
    """A runtime provider whose server does not come up."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> str:
        self.calls.append("start")
        return "grpc://127.0.0.1:1"

    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        raise TimeoutError("not ready")

    def stop(self) -> None:
        self.calls.append("stop")


async def test_a_provider_is_started_at_connect_and_stopped_at_close(url: str) -> None:
    provider = Container(url)
    client = GenericEnvClient(provider=provider)
    assert client.base_url is None
    assert (await client.step({})).observation["turn"] == 1
    assert client.base_url == url
    child = await client.new_session()
    await child.close()
    assert provider.calls == ["start", "wait True"]
    await client.close()
    assert provider.calls == ["start", "wait True", "stop"]


async def test_a_provider_beside_a_url_is_only_stopped(url: str) -> None:
    provider = Container(url)
    async with GenericEnvClient(url, provider=provider) as client:
        await client.step({})
    assert provider.calls == ["stop"]


async def test_a_provider_whose_server_does_not_come_up_is_stopped() -> None:
    provider = Runtime()
    client = GenericEnvClient(provider=provider)
    with pytest.raises(TimeoutError, match="not ready"):
        await client.connect()
    assert provider.calls == ["start", "stop"]


async def test_a_provider_is_stopped_if_a_block_cannot_be_entered(unused_tcp_port: int) -> None:
    provider = Container(f"grpc://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(UnavailableError):
        async with GenericEnvClient(provider=provider):
            pytest.fail("nobody listens there")
    assert provider.calls[-1] == "stop"


async def test_a_provider_that_needs_arguments_cannot_be_started_by_a_client() -> None:
    class Docker(Container):
        def start_container(self, image: str) -> str:  # type: ignore[override]
            return image

    with pytest.raises(InvalidRequestError, match="image"):
        await GenericEnvClient(provider=Docker("")).connect()
