"""The example of OpenEnv's own documents, on every door, with both servers and both clients."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from echo_env import CallToolAction, EchoAction, EchoEnv, EchoObservation, ListToolsAction
from openenv_grpc import CallToolObservation, InvalidActionError, ListToolsObservation
from tests.served_process import CHECKOUT, ServedProcess, start_server

GREETING = "Echo environment ready!"
HELLO = CallToolAction(tool_name="echo_message", arguments={"message": "Hello, World!"})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    with start_server(tmp_path_factory.mktemp("served"), "echo_env") as served:
        yield served


@contextmanager
def reference_server(python: Path) -> Iterator[str]:
    """Runs the reference's echo environment by the reference, and tells its URL."""
    with subprocess.Popen(
        [python, "-m", "server.app"],
        cwd=CHECKOUT / "tests/envs/reference_echo",
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def reference_url(reference_python: Path) -> Iterator[str]:
    with reference_server(reference_python) as url:
        yield url


@pytest.fixture(params=["grpc", "http", "ws"])
def url(request: pytest.FixtureRequest, served: ServedProcess) -> str:
    door = "grpc" if request.param == "grpc" else "http"
    return f"{request.param}://{served.address(door)}"


@pytest.fixture(
    params=["grpc", "http", "ws", pytest.param("reference", marks=pytest.mark.reference)]
)
def any_url(request: pytest.FixtureRequest) -> str:
    """URL of our server by each of its doors, and of the reference's."""
    if request.param == "reference":
        found: str = request.getfixturevalue("reference_url")
        return found
    served: ServedProcess = request.getfixturevalue("served")
    return f"{request.param}://{served.address('grpc' if request.param == 'grpc' else 'http')}"


async def test_the_example_of_the_documents(
    any_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EchoEnv(base_url=any_url) as client:
        result = await client.reset()
        print(result.observation.echoed_message)
        result = await client.step(
            CallToolAction(tool_name="echo_message", arguments={"message": "Hello, World!"})
        )
        print(result.observation.result)
        print(result.reward)

    assert capsys.readouterr().out == "Echo environment ready!\nHello, World!\nNone\n"


def test_the_example_of_the_documents_without_an_event_loop(
    any_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with EchoEnv(base_url=any_url).sync() as client:
        result = client.reset()
        print(result.observation.echoed_message)
        result = client.step(
            CallToolAction(tool_name="echo_message", arguments={"message": "Hello, World!"})
        )
        print(result.observation.result)
        print(result.reward)

    assert capsys.readouterr().out == "Echo environment ready!\nHello, World!\nNone\n"


async def test_a_tools_answer_keeps_the_keys_that_the_references_readers_use(any_url: str) -> None:
    async with EchoEnv(base_url=any_url) as client:
        await client.reset()
        result = await client.step(HELLO)

    assert isinstance(result.observation, CallToolObservation)
    assert result.observation.tool_name == "echo_message"
    assert result.observation.result["data"] == "Hello, World!"
    assert result.observation.result["content"][0]["text"] == "Hello, World!"
    assert result.observation.result["structured_content"] == {"result": "Hello, World!"}
    assert result.observation.result["is_error"] is False


async def test_tools_are_listed_by_a_step(any_url: str) -> None:
    async with EchoEnv(base_url=any_url) as client:
        await client.reset()
        result = await client.step(ListToolsAction())

    assert isinstance(result.observation, ListToolsObservation)
    assert [tool.name for tool in result.observation.tools] == ["echo_message", "echo_with_length"]


async def test_tools_are_listed_and_called_as_an_agent_does(any_url: str) -> None:
    async with EchoEnv(base_url=any_url) as client:
        names = [tool.name for tool in await client.list_tools()]
        answer = await client.call_tool("echo_with_length", message="abc")

    assert names == ["echo_message", "echo_with_length"]
    assert answer == {"message": "abc", "length": 3}


async def test_a_greeting_says_that_the_environment_is_ready(any_url: str) -> None:
    async with EchoEnv(base_url=any_url) as client:
        result = await client.reset()

    assert isinstance(result.observation, EchoObservation)
    assert (result.done, result.reward) == (False, 0.0)
    assert result.observation.metadata == {"status": "ready", "message": GREETING}


async def test_a_message_is_echoed_and_rewarded_by_its_length(url: str) -> None:
    async with EchoEnv(base_url=url) as client:
        await client.reset()
        result = await client.step(EchoAction(message="Hello, World!"))

    assert result.observation.echoed_message == "Hello, World!"
    assert result.observation.message_length == 13
    assert result.reward == pytest.approx(1.3)
    assert result.done is False


@pytest.mark.parametrize("action", [{}, {"massage": "hi"}, {"message": 5}, {"type": "call_tool"}])
async def test_an_action_of_neither_form_is_refused(url: str, action: dict[str, object]) -> None:
    async with EchoEnv(base_url=url) as client:
        await client.reset()
        with pytest.raises(InvalidActionError):
            await client.step(action)
        assert (await client.state()).step_count == 0


async def test_the_state_names_the_episode_and_counts_steps(url: str) -> None:
    async with EchoEnv(base_url=url) as client:
        await client.reset(episode_id="mine")
        await client.step(EchoAction(message="a"))
        await client.step(HELLO)
        state = await client.state()

    assert (state.episode_id, state.step_count) == ("mine", 2)


@pytest.mark.reference
def test_the_references_tool_client_drives_it(
    served: ServedProcess, reference_python: Path
) -> None:
    script = f"""
        import asyncio
        from openenv.core import MCPToolClient
        from openenv.core.env_server.mcp_types import CallToolAction

        async def main():
            async with MCPToolClient(base_url="http://{served.address("http")}") as client:
                result = await client.reset()
                print(result.observation.echoed_message, result.reward)
                print([tool.name for tool in await client.list_tools()])
                print(await client.call_tool("echo_message", message="Hello, World!"))
                result = await client.step(
                    CallToolAction(tool_name="echo_message", arguments={{"message": "again"}})
                )
                print(result.observation.result["data"], result.reward)

        asyncio.run(main())
    """

    run = subprocess.run(
        [reference_python, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "Echo environment ready! 0.0",
        "['echo_message', 'echo_with_length']",
        "Hello, World!",
        "again None",
    ]


@pytest.mark.reference
def test_the_references_generic_client_drives_it(
    served: ServedProcess, reference_python: Path
) -> None:
    script = f"""
        from openenv.core import GenericEnvClient

        with GenericEnvClient(base_url="http://{served.address("http")}").sync() as client:
            print(client.reset().observation["echoed_message"])
            result = client.step({{"message": "hello"}})
            print(result.observation["echoed_message"], result.reward)
            print(client.state()["step_count"])
    """

    run = subprocess.run(
        [reference_python, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["Echo environment ready!", "hello 0.5", "1"]


@pytest.mark.reference
async def test_the_references_own_environment_is_served_unchanged(
    reference_python: Path, tmp_path: Path
) -> None:
    target = "tests/envs/reference_echo"
    with start_server(tmp_path, target, python=reference_python) as served:
        for url in (f"grpc://{served.address('grpc')}", f"http://{served.address('http')}"):
            async with EchoEnv(base_url=url) as client:
                result = await client.reset()
                assert result.observation.echoed_message == GREETING
                result = await client.step(HELLO)
                assert str(result.observation.result) == "Hello, World!"
                assert (await client.state()).step_count == 1
