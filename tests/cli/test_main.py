"""The command tree: help, version, and how failures are told."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openenv_grpc.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_the_commands_and_the_first_steps() -> None:
    shown = run("--help")

    assert shown.returncode == 0
    for word in (
        "serve",
        "call",
        "mcp",
        "info",
        "sessions",
        "drain",
        "openenv-grpc serve echo_env",
    ):
        assert word in shown.stdout


@pytest.mark.parametrize("command", ["serve", "call", "mcp", "info", "sessions", "drain"])
def test_every_command_has_help(command: str) -> None:
    shown = run(command, "--help")

    assert shown.returncode == 0
    assert shown.stdout.startswith("Usage:") or "Usage:" in shown.stdout


def test_the_command_tree_loads_nothing_that_single_commands_need() -> None:
    program = "import sys, openenv_grpc.cli.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()

    assert {"aiohttp", "openenv_bridge", "openenv_grpc.engine", "numpy"}.isdisjoint(loaded)


def test_the_version_is_shown() -> None:
    shown = run("--version")

    assert shown.stdout == f"openenv-grpc {importlib.metadata.version('openenv-grpc')}\n"
    assert shown.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("dance",),
        ("serve",),
        ("serve", "echo_env", "--grpc-port", "many"),
        ("serve", "echo_env", "--mode", "dreaming"),
        ("call", "grpc://127.0.0.1:1", "dance"),
    ],
    ids=["nothing", "no such command", "no target", "no number", "no such mode", "no such call"],
)
def test_misuse_ends_with_status_2_and_no_traceback(arguments: tuple[str, ...]) -> None:
    shown = run(*arguments)

    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
