from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.bridge.vector_server import VectorServer, reference_python, vector_server
from tests.bridge.vectors import Replay, load

DIFFERENT_ON_PURPOSE = {
    "ws-top-level-not-object",
    "ws-binary-frame",
    "ws-step-custom-validator-is-fatal",
    "http-step-action-custom-validator",
    "ws-step-env-raises-validation-error",
    "ws-payload-unserializable-keeps-connection",
    "http-step-unserializable",
    "prod-ws-still-works",
    "ws-own-session-closed-over-http",
    "mcp-http-mode-tool-invisible",
    "mcp-ws-batch-is-fatal",
    "ws-mcp-on-non-mcp-env",
    "mcp-ws-non-mcp-env",
    "mcp-http-non-mcp-env",
}
"""The recorded exchanges that are not to hold; `test_deviations.py` tests what holds instead."""

HELD_IN_PART = {
    "mcp-http-parse-errors": slice(-1),  # the last step is a batch, which is another error here
    "mcp-http-unknown-methods": slice(2, None),  # `initialize` and `ping` are those of MCP here
}
"""The steps that are to hold of exchanges whose others are not."""


def held() -> list[Any]:
    """Returns the vectors that are to hold."""
    vectors = []
    for vector in load():
        if vector["name"] in DIFFERENT_ON_PURPOSE:
            continue
        part = HELD_IN_PART.get(vector["name"])
        if part is not None:
            vector = {**vector, "send": vector["send"][part], "expect": vector["expect"][part]}
        vectors.append(pytest.param(vector, id=vector["name"]))
    return vectors


@pytest.fixture(scope="module")
def ours() -> Iterator[VectorServer]:
    with vector_server("vector_environments") as server:
        yield server


@pytest.fixture(scope="module")
def on_reference_classes() -> Iterator[VectorServer]:
    with vector_server("reference_vector_environments", reference_python()) as server:
        yield server


async def replay(vector: dict[str, Any], server: VectorServer) -> None:
    # The reference drops the connection after some answers, so each request has its own.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as http:
        await Replay(http, server.url(vector["profile"])).run(vector)
    server.wait_idle()


def test_only_known_vectors_are_left_out() -> None:
    names = {vector["name"] for vector in load()}
    assert names >= DIFFERENT_ON_PURPOSE | HELD_IN_PART.keys()


@pytest.mark.parametrize("vector", held())
async def test_an_exchange_with_our_classes_goes_as_recorded(
    vector: dict[str, Any], ours: VectorServer
) -> None:
    await replay(vector, ours)


@pytest.mark.reference
@pytest.mark.parametrize("vector", held())
async def test_an_exchange_with_the_references_classes_goes_as_recorded(
    vector: dict[str, Any], on_reference_classes: VectorServer
) -> None:
    await replay(vector, on_reference_classes)
