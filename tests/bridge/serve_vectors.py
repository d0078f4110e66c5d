"""Serves every profile of the recorded exchanges with our bridge, in a process of its own.

    python serve_vectors.py MODULE

imports the environments from MODULE, prints one line of JSON with the port of each profile, and
then answers each line on standard input by `idle` once no session is left.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

from openenv_bridge import Bridge
from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.types import ServerMode


def profiles(module: ModuleType) -> dict[str, EnvironmentDefinition]:
    """Returns the definitions, as the vectors describe them."""
    probe: dict[str, Any] = {
        "factory": module.ProbeEnv,
        "action_type": module.ProbeAction,
        "observation_type": module.ProbeObservation,
        "state_type": module.ProbeState,
        "name": "probe",
    }
    tools: dict[str, Any] = {
        "factory": module.ToolsEnv,
        "action_type": module.CallToolAction,
        "observation_type": module.CallToolObservation,
        "name": "tools",
    }
    production = {"mode": ServerMode.PRODUCTION}
    described: dict[str, dict[str, Any]] = {
        "probe-sim": {**probe, "max_sessions": 4},
        "probe-cap1": {**probe, "max_sessions": 1},
        "probe-prod": {**probe, **production, "max_sessions": 4},
        "tools-sim": {**tools, "max_sessions": 4},
        "tools-cap1": {**tools, "max_sessions": 1},
        "tools-prod": {**tools, **production, "max_sessions": 4},
        "tools-base": {
            **tools,
            "action_type": module.Action,
            "observation_type": module.Observation,
            "max_sessions": 4,
        },
        "style-sim": {**tools, "factory": module.StyleEnv, "name": "style", "max_sessions": 4},
        "tasks-sim": {**probe, "factory": module.TasksEnv, "name": "Tasky", "max_sessions": 4},
        "broken": {**probe, "factory": module.bad_factory, "name": "bad", "max_sessions": 1},
    }
    return {name: EnvironmentDefinition(**fields) for name, fields in described.items()}


async def serve(module: ModuleType) -> None:
    """Serves until standard input ends."""
    managers: list[SessionManager] = []
    ports: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        for name, definition in profiles(module).items():
            manager = await stack.enter_async_context(SessionManager([definition]))
            bridge = await stack.enter_async_context(Bridge(manager))
            managers.append(manager)
            ports[name] = bridge.port
        print(json.dumps(ports), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            while any(manager.sessions() for manager in managers):
                await asyncio.sleep(0.005)
            print("idle", flush=True)


if __name__ == "__main__":
    asyncio.run(serve(importlib.import_module(sys.argv[1])))
