"""Serves it by the reference: `python -m server.app` prints the port that it listens on."""

from __future__ import annotations

import socket

import uvicorn
from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

try:
    from .environment import ReferenceEchoEnvironment  # noqa: TID252  # as authors write it
except ImportError:
    from server.environment import ReferenceEchoEnvironment

app = create_app(
    ReferenceEchoEnvironment,
    CallToolAction,
    CallToolObservation,
    env_name="reference_echo",
    max_concurrent_envs=16,
)


@app.get("/extra")
def extra() -> dict[str, bool]:
    return {"extra": True}


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
