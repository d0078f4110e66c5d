"""A client of dm_env_rpc with the calls of ours. Runs where dm_env_rpc is installed."""

from __future__ import annotations

from typing import Any, Self

import grpc
from dm_env_rpc.v1 import async_connection, spec_manager, tensor_utils
from dm_env_rpc.v1 import dm_env_rpc_pb2 as messages


class DmEnvRpcClient:
    """One stream, as its own asynchronous connection makes it; all share a channel."""

    _channels: dict[str, grpc.aio.Channel] = {}  # noqa: RUF012  shared on purpose

    def __init__(self, *, base_url: str) -> None:
        self._target = base_url.rpartition("/")[2]
        self._connection: async_connection.AsyncConnection
        self._actions: spec_manager.SpecManager
        self._observations: spec_manager.SpecManager

    async def connect(self) -> Self:
        if self._target not in self._channels:
            self._channels[self._target] = grpc.aio.insecure_channel(
                self._target,
                [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
            )
        self._connection = async_connection.AsyncConnection(self._channels[self._target])
        await self._connection.send(messages.CreateWorldRequest())
        joined = await self._connection.send(messages.JoinWorldRequest(world_name="world"))
        self._actions = spec_manager.SpecManager(joined.specs.actions)
        self._observations = spec_manager.SpecManager(joined.specs.observations)
        return self

    async def reset(self) -> Any:
        return await self._send({})

    async def step(self, action: dict[str, Any]) -> Any:
        return await self._send(self._actions.pack(action))

    async def _send(self, actions: dict[int, Any]) -> dict[str, Any]:
        step = messages.StepRequest(requested_observations=[1, 2], actions=actions)
        answer = await self._connection.send(step)
        return {
            name: tensor_utils.unpack_tensor(answer.observations[uid])
            for name, uid in (("observed", 1), ("reward", 2))
        }

    async def close(self) -> None:
        self._connection.close()
