"""`create_app` and its kin: what a ported `server/app.py` builds, and what `serve` takes."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.types import ConcurrencyConfig, ServerMode, State

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

ENABLED = frozenset({"true", "1", "yes"})


class App:
    """An environment described: `serve` takes it, and so does an ASGI server.

    `serve` opens every door. Under an ASGI server (`uvicorn server.app:app`) there is no gRPC, and
    what it receives is passed through to the bridge, which costs about twice the time.
    """

    def __init__(self, definition: EnvironmentDefinition) -> None:
        self.definition = definition
        self._gateway: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one ASGI connection."""
        if self._gateway is None:
            # Not at the top: importing the package must not import aiohttp.
            from openenv_grpc.asgi import Gateway

            self._gateway = Gateway(self.definition)
        await self._gateway(scope, receive, send)


def create_app(
    env: Callable[[], Any],
    action_cls: Any,
    observation_cls: Any,
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    gradio_builder: object = None,
    custom_tab_name: str = "Custom",
    custom_tab_primary: bool = False,
    show_default_tab: bool = True,
    title_override: str | None = None,
    state_cls: Any = State,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: Any = None,
) -> App:
    """Describes an environment, to be served.

    `env` is its class, or any function that builds one. Arguments of the web page are taken and
    not used. Without `mode` the variable `OPENENV_MODE` counts.

    Raises:
        TypeError: `env` is an environment rather than what builds one.
        ValueError: the mode or the number of environments makes no sense.
    """
    if os.environ.get("ENABLE_WEB_INTERFACE", "").lower() in ENABLED:
        logger.warning("ENABLE_WEB_INTERFACE is set; this version has no web page")
    return create_fastapi_app(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        mode=mode,
        reset_observation_cls=reset_observation_cls,
    )


def create_web_interface_app(
    env: Callable[[], Any],
    action_cls: Any,
    observation_cls: Any,
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    gradio_builder: object = None,
    custom_tab_name: str = "Custom",
    custom_tab_primary: bool = False,
    show_default_tab: bool = True,
    title_override: str | None = None,
    state_cls: Any = State,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: Any = None,
) -> App:
    """Describes an environment that has a web page. This version serves it without one."""
    logger.warning("the web page was asked for; this version has none")
    return create_fastapi_app(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        mode=mode,
        reset_observation_cls=reset_observation_cls,
    )


def create_fastapi_app(
    env: Callable[[], Any],
    action_cls: Any,
    observation_cls: Any,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    env_name: str | None = None,
    state_cls: Any = State,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: Any = None,
) -> App:
    """Describes an environment. Like `create_app`; the order of arguments is the reference's."""
    if not callable(env):
        raise TypeError(
            f"env has to be a class or a function that builds an environment, not a "
            f"{type(env).__name__}: write {type(env).__name__}, without parentheses"
        )
    if max_concurrent_envs is not None and concurrency_config is not None:
        raise ConfigurationError("give max_concurrent_envs or concurrency_config, not both")
    session_timeout_s: float | None = None
    if concurrency_config is not None:
        max_concurrent_envs = concurrency_config.max_concurrent_envs
        session_timeout_s = concurrency_config.session_timeout
    definition = EnvironmentDefinition(
        factory=env,
        action_type=action_cls,
        observation_type=observation_cls,
        state_type=state_cls,
        reset_observation_type=reset_observation_cls,
        name=env_name,
        max_sessions=max_concurrent_envs,
        session_timeout_s=session_timeout_s,
        mode=read_mode(mode),
    )
    return App(definition)


def read_mode(mode: ServerMode | str | None) -> ServerMode:
    """Returns a mode by its name; without one, that of the variable `OPENENV_MODE`.

    Raises:
        ConfigurationError: there is no such mode.
    """
    name = mode or os.environ.get("OPENENV_MODE") or ServerMode.SIMULATION
    try:
        return ServerMode(name.lower())
    except ValueError as error:
        raise ConfigurationError(
            f"there is no mode {name!r}; it is 'simulation' or 'production'"
        ) from error
