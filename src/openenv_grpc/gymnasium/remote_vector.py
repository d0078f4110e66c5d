"""Many environments on a server, as one vector environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from openenv_grpc.client import VectorEnvClient
from openenv_grpc.client.vector_results import infos_of
from openenv_grpc.client.vector_sessions import ConnectionArguments
from openenv_grpc.gymnasium.remote import ask_interface


class GymVectorEnv(VectorEnv[Any, Any, Any]):
    """Drives `num_envs` environments on a server by Gymnasium's vector calls.

    See `GymEnv` for the spaces, and `VectorEnvClient` for what becomes of one that fails.
    """

    def __init__(
        self,
        base_url: str,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        action_field: str | None = None,
        observation_field: str | None = None,
        **connection: Unpack[ConnectionArguments],
    ) -> None:
        """Asks the server for the schemas. See `EnvClient` for the other arguments.

        Raises:
            ConfigurationError: the environment's schemas tell of no spaces.
            OpenEnvError: the server cannot be reached.
        """
        super().__init__()
        self._interface = ask_interface(
            base_url, connection, action_field=action_field, observation_field=observation_field
        )
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.num_envs = num_envs
        self.single_action_space = self._interface.action_space
        self.single_observation_space = self._interface.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._client = VectorEnvClient(
            base_url, num_envs, autoreset=self.autoreset_mode.value, **connection
        ).sync()

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in each environment, or in those of `options["reset_mask"]`."""
        observations, infos = self._client.reset(seed=seed, options=options)
        return self._observed(observations), self._told(observations, infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Applies an action in each environment."""
        step = self._client.step(self._sent(actions))
        infos = self._told(step.observations, step.infos)
        if "final_obs" in infos:
            self._finish(infos)
        rewards = numpy.nan_to_num(step.rewards, copy=False, nan=0.0, posinf=None, neginf=None)
        return self._observed(step.observations), rewards, *step[2:4], infos

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the sessions."""
        self._client.close()

    def _sent(self, actions: Any) -> Any:
        interface = self._interface
        if interface.action.batched and interface.action_field is not None:
            dtype = interface.action_space.dtype
            return {interface.action_field: numpy.asarray(actions, dtype)}
        return [interface.encode(action) for action in iterate(self.action_space, actions)]

    def _observed(self, observations: Mapping[str, Any]) -> Any:
        interface = self._interface
        field = interface.observation_field
        if interface.observation.batched and field is not None:
            return numpy.asarray(observations[field], interface.observation_space.dtype)
        space = self.single_observation_space
        values = [interface.decode(fields) for fields in _rows(observations, self.num_envs)]
        empty: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, values, empty)

    def _told(self, observations: Mapping[str, Any], infos: dict[str, Any]) -> dict[str, Any]:
        told = [self._interface.info(fields) for fields in _rows(observations, self.num_envs)]
        kept = {name: column for name, column in infos.items() if name != "env_id"}
        return {**kept, **infos_of(told)}

    def _finish(self, infos: dict[str, Any]) -> None:
        """Makes of the last observations of episodes values of the space, and adds their infos."""
        last = infos["final_obs"]
        told: list[dict[str, Any]] = [{} for _ in last]
        for row, fields in enumerate(last):
            if fields:
                told[row] = self._interface.info(fields)
                last[row] = self._interface.decode(fields)
        infos["final_info"] = {**infos.get("final_info", {}), **infos_of(told)}


def _rows(batch: Any, count: int) -> Sequence[Any]:
    """Takes a batch apart again."""
    if isinstance(batch, Mapping):
        columns = {name: _rows(column, count) for name, column in batch.items()}
        return [{name: column[row] for name, column in columns.items()} for row in range(count)]
    rows: Sequence[Any] = batch
    return rows
