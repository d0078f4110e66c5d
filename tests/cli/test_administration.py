"""`openenv-grpc sessions` and `drain`, against a server of another process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from openenv_grpc import GenericEnvClient
from openenv_grpc.errors import SessionClosedError
from tests.cli.conftest import ServeProcess


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openenv_grpc.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_sessions_are_listed_as_a_table_and_as_json(serve_process: ServeProcess) -> None:
    with serve_process("echo_env") as served:
        url = f"grpc://{served.address('grpc')}"
        assert run("sessions", url).stdout == "no sessions\n"
        with GenericEnvClient(base_url=url).sync() as client:
            client.reset()
            client.step({"message": "a"})
            shown, told = run("sessions", url), run("sessions", url, "--json")

    assert shown.returncode == 0, shown.stderr
    header, row = shown.stdout.splitlines()
    assert header.split() == [
        "SESSION", "ENVIRONMENT", "STATE", "EPISODE", "AGE", "IDLE", "STEPS", "PEER",
    ]  # fmt: skip
    (session,) = map(json.loads, told.stdout.splitlines())
    assert session["environment"] == "echo_env"
    assert (session["state"], session["under_way"], session["step_count"]) == ("ready", True, 1)
    assert session["age_s"] >= session["idle_s"] > 0
    assert session["peer"].startswith("ipv4:127.0.0.1:")
    assert row.split()[:5] == [session["session_id"], "echo_env", "ready", "under", "way"]
    assert row.split()[-2:] == ["1", session["peer"]]


async def test_a_session_can_be_ended_and_its_client_is_told(serve_process: ServeProcess) -> None:
    with serve_process("echo_env") as served:
        url = f"grpc://{served.address('grpc')}"
        async with GenericEnvClient(base_url=url) as client:
            await client.reset()
            (listed,) = run("sessions", url, "--json").stdout.splitlines()
            session_id = json.loads(listed)["session_id"]

            ended = run("sessions", url, "--close", session_id, "--json")

            assert json.loads(ended.stdout) == {"closed": session_id}
            with pytest.raises(SessionClosedError, match="by an operator"):
                await client.step({"message": "a"})
        again = run("sessions", url, "--close", session_id)
    assert again.returncode == 1
    assert f"there is no session {session_id}" in again.stderr
    assert len(again.stderr.splitlines()) == 1


def test_a_server_is_drained_and_told_for_how_long(serve_process: ServeProcess) -> None:
    with serve_process("echo_env") as served:
        url = f"grpc://{served.address('grpc')}"
        with GenericEnvClient(base_url=url).sync() as client:
            client.reset()
            told = run("drain", url, "--limit", "60", "--json")
            assert json.loads(told.stdout) == {"draining": True, "sessions": 1}
            assert client.step({"message": "a"}).observation["echoed_message"] == "a"
            with pytest.raises(subprocess.TimeoutExpired):
                served.process.wait(timeout=0.5)
            assert run("drain", url, "--limit", "0").returncode == 0
            assert served.process.wait(timeout=20) == 0


@pytest.mark.parametrize("command", ["sessions", "drain"])
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:8000", "use grpc://HOST:PORT"),
        ("grpc://127.0.0.1:1", "127.0.0.1:1 cannot be reached"),
    ],
    ids=["HTTP", "nobody there"],
)
def test_a_server_that_cannot_be_administered_is_told_in_one_line(
    command: str, url: str, told: str
) -> None:
    ended = run(command, url)

    assert ended.returncode == 1
    assert ended.stdout == ""
    assert told in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_administration_is_for_trainers(serve_process: ServeProcess) -> None:
    with serve_process("echo_env", environment={"OPENENV_GRPC_TOKEN": "secret" * 6}) as served:
        url = f"grpc://{served.address('grpc')}"
        refused = run("sessions", url)
        listed = run("sessions", url, "--token", "secret" * 6)

    assert refused.returncode == 1
    assert "token" in refused.stderr
    assert listed.stdout == "no sessions\n"
