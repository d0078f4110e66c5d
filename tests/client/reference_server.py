"""A server of the reference, with a tiny environment; run by the reference's own Python."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import uvicorn
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class SayAction(Action):
    text: str
    wait_s: float = 0.0


class SayObservation(Observation):
    text: str = ""
    turn: int = 0


class SayEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: Any = None, episode_id: Any = None, **kwargs: Any) -> SayObservation:
        self._state = State(episode_id=episode_id, step_count=0)
        return SayObservation(text=f"seed {seed}")

    def step(self, action: SayAction, timeout_s: Any = None, **kwargs: Any) -> SayObservation:
        if action.text == "fail":
            raise RuntimeError("asked to fail")
        time.sleep(action.wait_s)
        self._state.step_count += 1
        done = action.text == "finish"
        return SayObservation(
            text=action.text, turn=self._state.step_count, reward=0.5, done=done, metadata={"n": 1}
        )

    @property
    def state(self) -> State:
        return self._state


def tool_app() -> Any:
    from fastmcp import FastMCP
    from openenv.core.env_server.mcp_environment import MCPEnvironment

    class ToolEnvironment(MCPEnvironment):
        def __init__(self) -> None:
            server = FastMCP("tools")

            @server.tool
            def add(a: int, b: int) -> int:
                """Adds."""
                return a + b

            @server.tool
            def boom() -> str:
                """Fails."""
                raise ValueError("it broke")

            super().__init__(server)
            self._state = State()

        def reset(self, seed: Any = None, episode_id: Any = None, **kwargs: Any) -> Observation:
            return Observation()

        def _step_impl(self, action: Any, timeout_s: Any = None, **kwargs: Any) -> Observation:
            return Observation()

        @property
        def state(self) -> State:
            return self._state

    return create_app(ToolEnvironment, CallToolAction, CallToolObservation)


def main() -> None:
    kind, max_sessions = sys.argv[1], int(sys.argv[2])
    if kind == "tools":
        app = tool_app()
    else:
        app = create_app(
            SayEnvironment, SayAction, SayObservation, max_concurrent_envs=max_sessions
        )
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"READY {listener.getsockname()[1]}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    server.run(sockets=[listener])


main()
