"""The tiny environment on the reference's classes, served as its documents do. Runs beside it.

Prints READY and the port once it listens.
"""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

SESSIONS = 4096


class TinyAction(Action):
    message: str


class TinyObservation(Observation):
    text: str = ""


class Tiny(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0

    def reset(self, seed: Any = None, episode_id: Any = None, **keywords: Any) -> TinyObservation:
        self._steps = 0
        return TinyObservation(text="ready")

    def step(self, action: TinyAction, timeout_s: Any = None, **keywords: Any) -> TinyObservation:
        self._steps += 1
        return TinyObservation(text=action.message, reward=1.0)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


class Server(uvicorn.Server):
    """Says when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"READY http=127.0.0.1:{port}", flush=True)


def main() -> None:
    app = create_app(Tiny, TinyAction, TinyObservation, max_concurrent_envs=SESSIONS)
    # The reference does not install uvloop. It is here as a dependency of ours, and unless told
    # otherwise uvicorn would take it.
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", access_log=False, loop="asyncio"
    )
    Server(config).run()


if __name__ == "__main__":
    main()
