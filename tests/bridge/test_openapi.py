from __future__ import annotations

import re

import pytest

from openenv_grpc.wire.image import read_image
from tests.bridge.conftest import Serve
from tests.bridge.gates import Gate
from tests.bridge.test_deviations import PROFILES


async def test_the_document_is_openapi_and_tells_the_routes(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition(), grpc_address="127.0.0.1:50051") as served,
        served.http.get(served.url + "/openapi.json") as response,
    ):
        document = await response.json()
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"] == "OpenEnv Environment HTTP API"
    assert document["info"]["version"] == "1.0.0"
    assert document["info"]["license"] == {"name": "BSD-3-Clause"}
    assert "127.0.0.1:50051" in document["info"]["description"]
    assert [tag["name"] for tag in document["tags"]] == [
        "Environment Control",
        "State Management",
        "Environment Info",
        "Schema",
        "Health",
    ]
    assert {"/reset", "/step", "/state", "/schema", "/metadata", "/health", "/mcp"} <= set(
        document["paths"]
    )
    assert "/gate/tasks" in document["paths"]


async def test_the_document_of_a_production_server_has_no_trainers_routes(serve: Serve) -> None:
    async with (
        serve(PROFILES["probe-prod"]) as served,
        served.http.get(served.url + "/openapi.json") as response,
    ):
        paths = (await response.json())["paths"]
    assert not {"/reset", "/step", "/state"} & set(paths)


async def test_every_route_of_the_document_exists(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition(), gate.definition(name="other")) as served:
        async with served.http.get(served.url + "/openapi.json") as response:
            paths = (await response.json())["paths"]
        assert "/other/reset" in paths
        for path, methods in paths.items():
            for method in methods:
                async with served.http.request(method, served.url + path) as response:
                    assert response.status not in (404, 405), path


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_the_page_needs_nothing_from_elsewhere(serve: Serve, gate: Gate, path: str) -> None:
    async with (
        serve(gate.definition()) as served,
        served.http.get(served.url + path) as response,
    ):
        assert response.content_type == "text/html"
        page = await response.text()
    assert "openapi.json" in page
    assert not re.search(r"(src|href)=\"(https?:)?//", page)


async def test_the_contract_is_handed_out(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition()) as served,
        served.http.get(served.url + "/proto.binpb") as response,
    ):
        assert response.status == 200
        assert await response.read() == read_image()
