"""The public face: what is exported, and what importing it costs."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import openenv_grpc

FACE = """
    Action Array Budgets CallToolAction CallToolObservation CompositeTransform ConcurrencyConfig
    ConcurrencyConfigurationError ConfigurationError DeadlineExceededError Effect EnvClient
    Environment EnvironmentDefinition EnvironmentFactoryError EnvironmentFailedError
    EnvironmentMetadata GenericAction GenericEnvClient InvalidActionError ListToolsAction
    ListToolsObservation MCPEnvironment MCPToolClient Media Message ModelTokenizer NullTransform
    Observation OpenEnvError Reason Rubric Server ServerMode SessionCapacityError
    SessionNotFoundError SnapshotProvider State StepResult SyncEnvClient TaskProvider Tool ToolError
    ToolErrorType ToolOutcome Transform UnavailableError VectorEnvClient __version__ create_app
    create_fastapi_app create_web_interface_app prompt report_log report_progress
    resource serve tool
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


def test_importing_the_package_takes_under_three_tenths_of_a_second(tmp_path: Path) -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", "import openenv_grpc"]
        subprocess.run(command, env=environment, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Compiled, as an installed package is.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds()

    # Time of the processor, and the least of several: the machine is shared.
    assert any(seconds() < 0.3 for _ in range(20))
