"""Whether anything is traced, and where spans go."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from opentelemetry import trace

from openenv_grpc import tracing
from openenv_grpc.errors import ConfigurationError
from tests.tracing.conftest import Spans

UNTRACED = """
import asyncio, sys
from openenv_grpc import GenericEnvClient, Server

async def main():
    async with Server("echo_env", grpc_port=0, http_port=0) as server:
        for url in (f"grpc://{server.grpc_address}", f"ws://{server.http_address}"):
            async with GenericEnvClient(url) as client:
                await client.reset()
                await client.step({"message": "hello"})

asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""

CONFIGURED = """
from openenv_grpc import tracing
tracing.configure()
made = tracing.configured()
with made.calling("openenv step", {}):
    print(tracing.TRACEPARENT.get())
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_nothing_of_opentelemetry_is_imported_where_it_is_not_configured() -> None:
    done = run(UNTRACED)

    assert done.stdout == "[]\n", done.stderr


def test_nothing_is_traced_where_the_api_alone_is_there() -> None:
    assert trace.get_tracer_provider() is not None

    assert tracing.configured() is None


def test_what_the_program_has_configured_is_used(spans: Spans) -> None:
    provider = trace.get_tracer_provider()
    tracing.configure()

    assert trace.get_tracer_provider() is provider
    assert tracing.configured() is not None


def test_variables_name_the_exporter_and_the_service() -> None:
    done = run(
        CONFIGURED, OTEL_TRACES_EXPORTER="console", OTEL_RESOURCE_ATTRIBUTES="service.name=chess"
    )

    span = json.loads(done.stderr)
    assert done.stdout.split("-")[1] == span["context"]["trace_id"].removeprefix("0x")
    assert span["resource"]["attributes"]["service.name"] == "chess"


def test_a_service_without_a_name_is_named_after_this_project() -> None:
    done = run(CONFIGURED, OTEL_TRACES_EXPORTER="console")

    span = json.loads(done.stderr)
    assert span["resource"]["attributes"]["service.name"] == "openenv-grpc"


def test_without_exporters_spans_are_made_all_the_same() -> None:
    done = run(CONFIGURED, OTEL_TRACES_EXPORTER="none")

    assert (len(done.stdout.split("-")), done.stderr) == (4, "")


def test_an_exporter_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier_pigeon")

    with pytest.raises(ConfigurationError, match=r"'carrier_pigeon', which is not installed"):
        tracing.configure()
