"""`GET /`: what is served here, and where its doors are."""

from __future__ import annotations

from aiohttp import web

from openenv_bridge.responses import json_response
from openenv_grpc.serialization import dump_json
from openenv_grpc.sessions import SessionHost
from openenv_grpc.types import JsonValue

DOOR_PATHS = {"http": "", "ws": "/ws", "mcp": "/mcp"}
"""What stands after an environment's name, by protocol."""


class IndexRoute:
    """The first page for whoever opens the address in a browser."""

    def __init__(self, host: SessionHost, *, grpc_address: str | None) -> None:
        self._host = host
        self._grpc_address = grpc_address

    async def index(self, _: web.Request) -> web.Response:
        """Lists the environments with the paths of their doors, and the pages beside them."""
        environments: dict[str, JsonValue] = {
            name: {door: f"/{name}{path}" for door, path in DOOR_PATHS.items()}
            for name in self._host.environments
        }
        content: dict[str, JsonValue] = {
            "server": "openenv-grpc",
            "environments": environments,
            "documentation": "/docs",
            "health": "/health",
            "protos": "/proto.binpb",
        }
        if self._grpc_address is not None:
            content["grpc"] = self._grpc_address
        return json_response(dump_json(content))
