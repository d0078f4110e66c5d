"""The vector client with methods that block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from openenv_grpc.client.blocks import Block
from openenv_grpc.client.sync_client import background
from openenv_grpc.client.vector_results import VectorStep
from openenv_grpc.types import JsonValue

if TYPE_CHECKING:
    from openenv_grpc.client.vector_client import Seeds, VectorEnvClient


class SyncVectorEnvClient(Block):
    """A vector client whose methods block. See `VectorEnvClient` for what they do and raise."""

    def __init__(self, async_client: VectorEnvClient) -> None:
        """Wraps a client that no event loop has used yet."""
        self._client = async_client
        background.clients.add(self)

    @property
    def async_client(self) -> VectorEnvClient:
        """The client that does the work."""
        return self._client

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        return self._client.num_envs

    def connect(self) -> Self:
        """Opens the sessions."""
        background.run(self._client.connect())
        return self

    def reset(
        self, *, seed: Seeds = None, options: Mapping[str, JsonValue] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts an episode in each environment."""
        return background.run(self._client.reset(seed=seed, options=options))

    def async_reset(
        self, *, seed: Seeds = None, options: Mapping[str, JsonValue] | None = None
    ) -> None:
        """Starts an episode in each environment; `recv` returns the first observations."""

        async def start() -> None:
            self._client.async_reset(seed=seed, options=options)

        background.run(start())

    def step(self, actions: Any) -> VectorStep:
        """Applies an action in each environment."""
        return background.run(self._client.step(actions))

    def send(self, actions: Any, env_id: Sequence[int] | None = None) -> None:
        """Sends an action to each of some environments."""

        async def send() -> None:
            self._client.send(actions, env_id)

        background.run(send())

    def recv(self) -> VectorStep:
        """Waits until `batch_size` environments have answered."""
        return background.run(self._client.recv())

    def close(self) -> None:
        """Ends everything."""
        background.run(self._client.close())
