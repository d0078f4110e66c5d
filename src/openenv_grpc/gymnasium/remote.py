"""An environment on a server, as one of Gymnasium."""

from __future__ import annotations

from typing import Any, Unpack

import gymnasium

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.client.catalog import EnvironmentDescription, describe
from openenv_grpc.client.sync_client import background
from openenv_grpc.client.vector_sessions import ConnectionArguments
from openenv_grpc.gymnasium.interface import Interface, interface_of


class GymEnv(gymnasium.Env[Any, Any]):
    """Drives an environment on a server by Gymnasium's calls.

    Its spaces are those that a served environment of Gymnasium has, else `Dict` spaces of the
    fields of its action and its observation; `action_field` and `observation_field` name the one
    field to take instead. Fields that have no space, such as optional ones, are in `info`, or are
    left at their defaults. A missing reward counts as 0.
    """

    def __init__(
        self,
        base_url: str,
        *,
        action_field: str | None = None,
        observation_field: str | None = None,
        **connection: Unpack[ConnectionArguments],
    ) -> None:
        """Asks the server for the schemas. See `EnvClient` for the other arguments.

        Raises:
            ConfigurationError: the environment's schemas tell of no spaces.
            OpenEnvError: the server cannot be reached.
        """
        self.metadata = {"render_modes": []}
        self._interface = ask_interface(
            base_url, connection, action_field=action_field, observation_field=observation_field
        )
        self.action_space = self._interface.action_space
        self.observation_space = self._interface.observation_space
        self._client = GenericEnvClient(base_url, **connection).sync()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; `options` are the environment's own."""
        super().reset(seed=seed)
        given = {} if seed is None else {"seed": seed}
        seen = self._client.reset(**{**(options or {}), **given}).observation
        return self._interface.decode(seen), self._interface.info(seen)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Applies an action. Raises what `EnvClient.step` raises."""
        result = self._client.step(self._interface.encode(action))
        seen, info = result.observation, self._interface.info(result.observation)
        if "rewards" in result.info:
            info["rewards"] = result.info["rewards"]
        return (
            self._interface.decode(seen),
            0.0 if result.reward is None else float(result.reward),
            result.terminated,
            result.truncated,
            info,
        )

    def close(self) -> None:
        """Ends the session."""
        self._client.close()


def ask_interface(
    base_url: str,
    connection: ConnectionArguments,
    *,
    action_field: str | None,
    observation_field: str | None,
) -> Interface:
    """Asks a server's catalogue for the spaces of an environment."""

    async def ask() -> list[EnvironmentDescription]:
        return await describe(
            base_url,
            connection.get("environment", ""),
            timeout_s=connection.get("connect_timeout_s", 10.0),
            token=connection.get("token"),
            tls_ca=connection.get("tls_ca"),
            tls_cert=connection.get("tls_cert"),
            tls_key=connection.get("tls_key"),
        )

    return interface_of(
        background.run(ask())[0], action_field=action_field, observation_field=observation_field
    )
