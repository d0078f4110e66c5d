"""`openenv-grpc call` and `info` against a server, as a person and as a script use them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from openenv_grpc.client.time_limits import CLOSE_TIMEOUT_S
from tests.certificates import make_certificates
from tests.served_process import ServedProcess, start_server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    with start_server(tmp_path_factory.mktemp("served"), "echo_env") as served:
        yield served


@pytest.fixture(params=["grpc", "http", "ws"])
def url(request: pytest.FixtureRequest, served: ServedProcess) -> str:
    door = "grpc" if request.param == "grpc" else "http"
    return f"{request.param}://{served.address(door)}"


@pytest.fixture
def grpc_url(served: ServedProcess) -> str:
    return f"grpc://{served.address('grpc')}"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openenv_grpc.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def answers(*arguments: str) -> list[dict[str, object]]:
    ended = run(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_reset_shows_the_first_observation(url: str) -> None:
    (answer,) = answers("call", url, "reset", '{"seed": 7}')

    assert answer["observation"]["echoed_message"] == "Echo environment ready!"  # type: ignore[index]
    assert answer["reward"] == 0.0
    assert answer["done"] is False


def test_steps_share_an_episode(url: str) -> None:
    first, second = answers("call", url, "step", '{"message": "a"}', '{"message": "bc"}')

    assert first["observation"]["echoed_message"] == "a"  # type: ignore[index]
    assert second["reward"] == pytest.approx(0.2)


def test_state_is_that_of_an_episode_that_has_begun(url: str) -> None:
    (answer,) = answers("call", url, "state", "--reset", '{"episode_id": "mine"}')

    assert (answer["episode_id"], answer["step_count"]) == ("mine", 0)


def test_state_without_a_reset_is_that_of_no_episode(url: str) -> None:
    (answer,) = answers("call", url, "state", "--no-reset")

    assert answer["step_count"] == 0


def test_tools_are_listed(url: str) -> None:
    names = [answer["name"] for answer in answers("call", url, "tools")]

    assert names == ["echo_message", "echo_with_length"]


def test_a_tool_is_called(url: str) -> None:
    (answer,) = answers("call", url, "tool", "echo_with_length", '{"message": "abc"}')

    assert answer == {"result": {"message": "abc", "length": 3}}


def test_a_tool_is_called_in_production_where_nobody_resets(tmp_path: Path) -> None:
    with start_server(tmp_path, "echo_env", "--mode", "production") as served:
        url = f"grpc://{served.address('grpc')}"

        (answer,) = answers("call", url, "tool", "echo_message", '{"message": "abc"}')
        (told,) = answers("info", url)
        refused = run("call", url, "reset")

    assert answer == {"result": "abc"}
    assert told["mode"] == "production"
    assert refused.returncode == 1
    assert "MODE_FORBIDS" in refused.stderr


def test_what_came_before_a_failure_is_shown(tmp_path: Path) -> None:
    steps = ('{"by": 1}', '{"by": 1}', '{"text": "value"}')
    with start_server(tmp_path, "tests.environments:Failing") as served:
        url = f"grpc://{served.address('grpc')}"

        ended = run("call", url, "step", *steps, "--json")
        as_yaml = run("call", url, "step", *steps)

    assert ended.returncode == as_yaml.returncode == 1
    assert [json.loads(line)["observation"]["left"] for line in ended.stdout.splitlines()] == [2, 1]
    assert "no such move" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert [told["observation"]["left"] for told in yaml.safe_load_all(as_yaml.stdout)] == [2, 1]


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_ctrl_c_does_not_wait_for_a_step(tmp_path: Path, door: str) -> None:
    with start_server(tmp_path, "tests.cli.blocking:Blocking") as served:
        url = f"{door}://{served.address(door)}"
        command = [sys.executable, "-m", "openenv_grpc.cli", "call", url, "step", "{}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as calling:
            try:
                assert served.process.stdout is not None
                assert served.process.stdout.readline() == "stepping\n"
                calling.send_signal(signal.SIGINT)
                status = calling.wait(timeout=CLOSE_TIMEOUT_S - 2)
            finally:
                calling.kill()
            assert calling.stderr is not None
            assert calling.stderr.read() == ""

    assert status == 130


def test_a_person_reads_yaml(grpc_url: str) -> None:
    ended = run("call", grpc_url, "step", '{"message": "für dich"}')

    assert ended.returncode == 0, ended.stderr
    assert "echoed_message: für dich" in ended.stdout
    assert yaml.safe_load(ended.stdout)["reward"] == pytest.approx(0.8)


def test_an_action_that_does_not_fit_is_not_sent(url: str, served: ServedProcess) -> None:
    ended = run("call", url, "step", '{"massage": "hi"}')

    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("openenv-grpc: the action does not fit the environment")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("tool", "nothing"), 1, "nothing"),
        (("tool", "echo_message", '{"massage": "hi"}'), 1, "message"),
        (("reset", "{"), 2, "is not valid JSON"),
        (("step", "[1]"), 2, "has to be a JSON object"),
        (("step",), 2, "an argument is missing"),
        (("tool",), 2, "an argument is missing"),
        (("state", "{}"), 2, "one argument too many"),
        (("reset", "{}", "--env", "nowhere"), 1, "nowhere"),
        (("reset", '{"seed": "many"}'), 1, "seed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_failure_is_told_in_one_line(
    grpc_url: str, arguments: tuple[str, ...], status: int, told: str
) -> None:
    ended = run("call", grpc_url, *arguments)

    assert ended.returncode == status
    assert ended.stdout == ""
    assert told in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:1", "http://127.0.0.1:1", "ws://127.0.0.1:1"])
@pytest.mark.parametrize("command", [("call", "reset"), ("call", "step", "{}"), ("info",)])
def test_a_server_that_is_not_there_is_told_in_one_line(url: str, command: tuple[str, ...]) -> None:
    ended = run(command[0], url, *command[1:])

    assert ended.returncode == 1
    assert "127.0.0.1:1" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_url_of_no_known_form_is_told_in_one_line() -> None:
    ended = run("call", "gopher://127.0.0.1", "reset")

    assert ended.returncode in (1, 2)
    assert "gopher" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_info_tells_what_a_server_offers(url: str) -> None:
    (told,) = answers("info", url)

    assert told["name"] == "echo_env"
    assert told["mode"] == "simulation"
    assert {"action", "observation", "state"} <= set(told["schemas"])  # type: ignore[call-overload]
    assert told["doors"]


def test_info_by_grpc_tells_capabilities_and_limits(grpc_url: str) -> None:
    (told,) = answers("info", grpc_url)

    assert told["capabilities"]["concurrent_sessions"] is True  # type: ignore[index]
    assert told["capabilities"]["tools"] is True  # type: ignore[index]
    assert told["session_limit"] == 256


def test_info_for_a_person_is_a_summary(grpc_url: str) -> None:
    told = yaml.safe_load(run("info", grpc_url).stdout)

    assert told["name"] == "echo_env"
    assert told["sessions"] == "0 of 256"
    assert told["action"] == {"message": "string (What to echo)"}
    assert told["observation"]["echoed_message"] == 'string = "" (The message, as it was said)'
    assert told["tools"] == f"openenv-grpc call {grpc_url} tools --env echo_env"
    assert "schemas" not in told


def test_info_with_schemas_tells_all(grpc_url: str) -> None:
    told = yaml.safe_load(run("info", grpc_url, "--schemas").stdout)

    assert {"action", "observation", "state"} <= set(told["schemas"])


def test_info_of_several_environments_is_a_yaml_document_each(tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    targets = ("echo_env", "tests.environments:Countdown", "--unix", str(socket))
    with start_server(tmp_path, *targets) as served:
        summaries = run("info", f"unix:{socket}").stdout
        whole = run("info", f"unix:{socket}", "--schemas").stdout
        grpc = served.address("grpc")

    for printed in (summaries, whole):
        told = list(yaml.safe_load_all(printed))
        assert [each["name"] for each in told] == ["echo_env", "Countdown"]
        for each in told:
            assert (each["doors"]["grpc"], each["doors"]["unix"]) == (grpc, f"unix:{socket}")


@pytest.mark.parametrize("scheme", ["unix", "http+unix"])
def test_servers_behind_a_unix_socket_are_called_and_described(tmp_path: Path, scheme: str) -> None:
    socket = tmp_path / "socket"
    option = "--unix" if scheme == "unix" else "--http-unix"
    ports = ("--no-grpc", "--no-http", option, str(socket))
    with start_server(tmp_path, "echo_env", ports=ports):
        called = run("call", f"{scheme}:{socket}", "step", '{"message": "hello"}')
        told = yaml.safe_load(run("info", f"{scheme}:{socket}").stdout)

    assert "hello" in called.stdout
    assert told["doors"] == {scheme: f"{scheme}:{socket}"}


def test_info_of_an_environment_that_is_not_there_is_told(url: str) -> None:
    ended = run("info", url, "--env", "nowhere")

    assert ended.returncode == 1
    assert "nowhere" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


# Tokens and certificates


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedProcess, Path]]:
    folder = tmp_path_factory.mktemp("protected")
    made = make_certificates(folder)
    (folder / "tokens").write_text("# trainers\nthe-trainers-token\n")
    certificate = ("--tls-cert", str(made.server), "--tls-key", str(made.server_key))
    token = ("--token-file", str(folder / "tokens"))
    with start_server(folder, "echo_env", *token, *certificate) as served:
        yield served, folder


@pytest.mark.parametrize("door", ["grpc", "http"])
@pytest.mark.parametrize("command", ["call", "info"])
@pytest.mark.parametrize("by", ["option", "file", "variable"])
def test_a_protected_server_is_called_with_a_token_and_whom_to_trust(
    protected: tuple[ServedProcess, Path],
    monkeypatch: pytest.MonkeyPatch,
    door: str,
    command: str,
    by: str,
) -> None:
    served, folder = protected
    url = f"{door}s://{served.address(door)}"
    what = ["step", '{"message": "hi"}'] if command == "call" else []
    token: list[str] = []
    match by:
        case "option":
            token = ["--token", "the-trainers-token"]
        case "file":
            token = ["--token-file", str(folder / "tokens")]
        case _:
            monkeypatch.setenv("OPENENV_GRPC_TOKEN", "the-trainers-token")

    answered = run(command, url, *what, "--tls-ca", str(folder / "ca.pem"), *token)

    assert answered.returncode == 0, answered.stderr


@pytest.mark.parametrize("command", ["call", "info"])
def test_a_token_that_is_not_good_is_told_in_one_line(
    protected: tuple[ServedProcess, Path], command: str
) -> None:
    served, folder = protected
    trust = ("--tls-ca", str(folder / "ca.pem"))
    what = ["reset"] if command == "call" else []
    for door in ("grpc", "http"):
        url = f"{door}s://{served.address(door)}"
        for token in ([], ["--token", "a-wrong-token"]):
            refused = run(command, url, *what, *trust, *token)
            assert refused.returncode == 1
            assert "UNAUTHENTICATED" in refused.stderr
            assert "a-wrong-token" not in refused.stderr


def test_two_tokens_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("one\n")
    token = ("--token", "two", "--token-file", str(tmp_path / "tokens"))

    refused = run("info", "grpc://127.0.0.1:1", *token)

    assert refused.returncode == 2
    assert "not both" in refused.stderr


def test_info_on_a_port_that_speaks_grpc_says_how_to_name_it(grpc_url: str) -> None:
    ended = run("info", grpc_url.removeprefix("grpc://"))

    assert ended.returncode == 1
    assert "grpc://HOST:PORT" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
