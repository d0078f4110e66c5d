"""Wheel and sdist, installed where nothing else is, and served from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openenv_grpc import GenericEnvClient
from tests.served_process import CHECKOUT, start_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Distributions:
    """What was built."""

    wheel: Path
    sdist: Path
    environment: Path
    """The wheel of echo."""


def build(folder: Path, target: Path, *options: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(target)]
    subprocess.run([*command, str(folder)], check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Builds from a copy of what is committed or will be: a build writes into its folder."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (CHECKOUT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((CHECKOUT / name).read_bytes())
    build(source, target)
    build(source / "envs/echo_env", target, "--wheel")
    return Distributions(
        wheel=next(target.glob("openenv_grpc-*.whl")),
        sdist=next(target.glob("openenv_grpc-*.tar.gz")),
        environment=next(target.glob("openenv_echo_env-*.whl")),
    )


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest,
    distributions: Distributions,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """Installs one of them, with what it needs and no more, and returns the Python."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    main = distributions.wheel if request.param == "wheel" else distributions.sdist
    install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    given = ["--constraint", CHECKOUT / "constraints.txt", main, distributions.environment]
    subprocess.run([*install, *given], check=True, timeout=500)
    return python


def test_the_wheel_has_what_is_imported_and_no_more(distributions: Distributions) -> None:
    names = zipfile.ZipFile(distributions.wheel).namelist()

    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "openenv_grpc",
        "openenv_bridge",
    }
    assert "openenv_grpc/py.typed" in names
    assert "openenv_grpc/v1/session_pb2.py" in names
    assert "openenv_grpc/v1/session_pb2.pyi" in names
    assert "openenv_grpc/v1/proto.binpb" in names
    assert "openenv_bridge/docs.html" in names


def test_the_sdist_has_what_it_is_built_from(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "proto/generate.py",
        "proto/openenv_grpc/v1/session.proto",
        "envs/echo_env/openenv.yaml",
        "tests/packaging/test_distributions.py",
    } <= names


def test_the_wheel_of_an_environment_has_its_manifest(distributions: Distributions) -> None:
    names = zipfile.ZipFile(distributions.environment).namelist()

    assert {"echo_env/openenv.yaml", "echo_env/server/app.py", "echo_env/README.md"} <= set(names)


async def test_an_installed_distribution_serves(installed: Path, tmp_path: Path) -> None:
    clean = {"PYTHONPATH": "", "PATH": os.environ["PATH"]}

    with start_server(
        tmp_path, "echo_env", python=installed, environment=clean, cwd=tmp_path
    ) as served:
        for url in (f"grpc://{served.address('grpc')}", f"http://{served.address('http')}"):
            async with GenericEnvClient(base_url=url) as client:
                result = await client.reset()
                assert result.observation["echoed_message"] == "Echo environment ready!"


def test_the_script_of_an_environment_serves_it(installed: Path, tmp_path: Path) -> None:
    command = [installed.parent / "server", "--port", "0", "--grpc-port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        status = process.wait(timeout=20)

    assert re.fullmatch(r"echo listens: grpc=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+\n", line)
    assert status == 0


def test_a_plain_install_is_small(installed: Path) -> None:
    listed = subprocess.run(
        [installed, "-m", "pip", "--disable-pip-version-check", "list", "--format", "freeze"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    names = {line.partition("==")[0].lower() for line in listed.stdout.splitlines()}

    assert names.isdisjoint({"mcp", "fastmcp", "numpy", "pytest", "grpcio-tools", "openenv"})
    assert len(names) < 50
