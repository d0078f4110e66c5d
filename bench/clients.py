"""The clients that a load drives, by name: each is made of `base_url`, and has connect to close."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None


def ours() -> tuple[Any, LoopFactory]:
    """Returns our client, on uvloop."""
    import uvloop

    from openenv_grpc import GenericEnvClient

    return GenericEnvClient, uvloop.new_event_loop


def reference() -> tuple[Any, LoopFactory]:
    """Returns the reference's client as it is installed."""
    from openenv.core.generic_client import GenericEnvClient

    return GenericEnvClient, None


def tuned() -> tuple[Any, LoopFactory]:
    """Returns the reference's client with uvloop, orjson and no compression.

    The package has no settings for the last two, so that its module's names are replaced.
    """
    import orjson
    import uvloop
    from openenv.core import env_client

    client_type, _ = reference()
    env_client.json = SimpleNamespace(
        dumps=lambda value: orjson.dumps(value).decode(), loads=orjson.loads
    )
    env_client.ws_connect = functools.partial(env_client.ws_connect, compression=None)
    return client_type, uvloop.new_event_loop


def ping_pong() -> tuple[Any, LoopFactory]:
    """Returns what asks bare sockets."""
    import uvloop

    from bench.ping_pong import PingPongClient

    return PingPongClient, uvloop.new_event_loop


def agent(name: str) -> tuple[Any, LoopFactory]:
    """Returns an agent of `bench.agents`, by the name of its class."""
    import uvloop

    from bench import agents

    return vars(agents)[name], uvloop.new_event_loop


def dm_env_rpc() -> tuple[Any, LoopFactory]:
    """Returns a client of dm_env_rpc, on uvloop as ours is."""
    import uvloop

    from bench.dm_env_rpc_client import DmEnvRpcClient

    return DmEnvRpcClient, uvloop.new_event_loop


def gymnasium() -> tuple[Any, LoopFactory]:
    """Returns a class of Gymnasium: `AsyncVectorEnv` is its own client."""
    from bench.gymnasium_environment import ArrayEnvironment

    return ArrayEnvironment, None


CLIENTS: dict[str, Callable[[], tuple[Any, LoopFactory]]] = {
    "agent_frame": functools.partial(agent, "FrameAgent"),
    "agent_legacy": functools.partial(agent, "LegacyAgent"),
    "agent_modern": functools.partial(agent, "ModernAgent"),
    "agent_openenv": functools.partial(agent, "OpenEnvAgent"),
    "agent_tool_service": functools.partial(agent, "ToolServiceAgent"),
    "dm_env_rpc": dm_env_rpc,
    "gymnasium": gymnasium,
    "ours": ours,
    "ping_pong": ping_pong,
    "reference": reference,
    "tuned": tuned,
}
