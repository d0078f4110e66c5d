"""What is built in other languages for MCP: its conformance tool, its SDK, its inspector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import HERE, Node
from tests.served_process import ServedProcess

pytestmark = [pytest.mark.languages, pytest.mark.timeout(600)]

CONFORMANCE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_all_passes_that_a_version_requires(
    node: Node, server: ServedProcess, version: str, tmp_path: Path
) -> None:
    url = f"http://{server.address('http')}/mcp"
    options = ("--requirements", version, "-o", str(tmp_path))
    ended = node(CONFORMANCE, "server", "--url", url, *options)
    assert ended.returncode == 0, ended.stdout[-6000:]
    assert "These do not affect conformance" in ended.stdout


@pytest.mark.parametrize(
    "scenario", ["http-header-validation", "http-custom-header-server-validation"]
)
def test_headers_are_compared_with_the_body(
    node: Node, server: ServedProcess, scenario: str, tmp_path: Path
) -> None:
    # The tool knows these, and asks them of nobody yet.
    url = f"http://{server.address('http')}/mcp"
    ended = node(CONFORMANCE, "server", "--url", url, "--scenario", scenario, "-o", str(tmp_path))
    assert ended.returncode == 0, ended.stdout[-6000:]
    assert ", 0 failed, 0 warnings" in ended.stdout


def test_clients_of_the_typescript_sdk_play_an_episode_each(
    node: Node, server: ServedProcess
) -> None:
    ended = node("play.js", f"http://{server.address('http')}/Countdown/mcp")
    assert ended.returncode == 0, ended.stderr
    played = json.loads(ended.stdout)
    assert [each["left"] for each in played] == [[2, 1, 0], [1, -1, -3], [0, -3, -6]]
    assert all(each["tools"] == ["act"] for each in played)
    assert all(each["refused"] and each["began"] for each in played)


def test_the_inspector_plays_an_episode(node: Node, server: ServedProcess) -> None:
    url = f"http://{server.address('http')}/Countdown/mcp"

    def inspect(*arguments: str) -> Any:
        ended = node(INSPECTOR, "--cli", url, "--transport", "http", *arguments)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    listed = inspect("--method", "tools/list")
    assert [tool["name"] for tool in listed["tools"]] == ["act"]
    acting = ("--method", "tools/call", "--tool-name", "act", "--tool-arg", "by=3")
    called = inspect(*acting)
    assert called["structuredContent"]["done"] is True


def test_the_lockfile_names_no_registry() -> None:
    lockfile = (HERE / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lockfile
