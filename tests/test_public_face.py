"""The public face: what is exported, and what importing it costs."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import time

import pytest

import openenv_grpc

FACE = """
    Action CallToolAction CallToolObservation CompositeTransform ConcurrencyConfig
    ConcurrencyConfigurationError ConfigurationError DeadlineExceededError Effect EnvClient
    Environment EnvironmentDefinition EnvironmentFactoryError EnvironmentFailedError
    EnvironmentMetadata GenericAction GenericEnvClient InvalidActionError ListToolsAction
    ListToolsObservation MCPEnvironment MCPToolClient Media Message ModelTokenizer NullTransform
    Observation OpenEnvError Reason Rubric Server ServerMode SessionCapacityError
    SessionNotFoundError State StepResult SyncEnvClient TaskProvider Tool ToolError
    ToolErrorType ToolOutcome Transform UnavailableError __version__ create_app
    create_fastapi_app create_web_interface_app serve tool
"""

IMPORTED = "import sys, openenv_grpc; print(*sys.modules, sep=chr(10))"


def test_the_public_face_is_what_it_was() -> None:
    assert FACE.split() == openenv_grpc.__all__


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("openenv-grpc") == openenv_grpc.__version__


@pytest.mark.parametrize(
    "module", ["aiohttp", "mcp", "fastmcp", "numpy", "uvloop", "openenv_bridge"]
)
def test_importing_the_package_does_not_import(module: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=60, check=True
    )

    assert module not in run.stdout.split()


def test_importing_the_package_is_quick() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
        return time.perf_counter() - start

    # The least of several: the machine is shared.
    bare = min(seconds("pass") for _ in range(3))
    imported = min(seconds("import openenv_grpc") for _ in range(7))

    assert imported - bare < 0.3
