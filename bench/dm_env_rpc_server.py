"""The same environments by dm_env_rpc, served as its documents do: a blocking server of threads.

`python -m bench.dm_env_rpc_server Tiny|Frame|Megabyte` prints READY and the port once it listens.
Runs in an environment of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
from dm_env_rpc.v1 import dm_env_rpc_pb2 as messages
from dm_env_rpc.v1 import dm_env_rpc_pb2_grpc, tensor_utils

THREADS = 1100
SHAPES: dict[str, tuple[int, ...]] = {
    "Tiny": (), "Frame": (84, 84, 4), "Megabyte": (512, 512, 4),
}  # fmt: skip
MESSAGE, OBSERVED, REWARD = 1, 1, 2


class Episode:
    """One environment: it says what it is told, or shows a frame of which a quarter changes."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._pixels = np.zeros(shape, np.uint8)
        self._noise = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        self._steps = 0

    def observation(self, message: str) -> Any:
        if not self._shape:
            return message
        self._steps += 1
        part = len(self._noise) // 4
        self._pixels[:part] = self._noise[:part] ^ (self._steps & 0xFF)
        return self._pixels


class Servicer(dm_env_rpc_pb2_grpc.EnvironmentServicer):
    """A world for each stream."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    def Process(  # noqa: N802  as the proto says
        self, requests: Iterator[messages.EnvironmentRequest], context: grpc.ServicerContext
    ) -> Iterator[messages.EnvironmentResponse]:
        episode = Episode(self._shape)
        for request in requests:
            answer = messages.EnvironmentResponse()
            match request.WhichOneof("payload"):
                case "create_world":
                    answer.create_world.world_name = "world"
                case "join_world":
                    self._join(answer.join_world.specs)
                case "step":
                    self._step(episode, request.step, answer.step)
                case kind:
                    answer.error.message = f"{kind} is not served"
            yield answer

    def _join(self, specs: messages.ActionObservationSpecs) -> None:
        specs.actions[MESSAGE].CopyFrom(messages.TensorSpec(name="message", dtype=messages.STRING))
        kind = messages.UINT8 if self._shape else messages.STRING
        specs.observations[OBSERVED].CopyFrom(
            messages.TensorSpec(name="observed", dtype=kind, shape=self._shape)
        )
        specs.observations[REWARD].CopyFrom(
            messages.TensorSpec(name="reward", dtype=messages.DOUBLE)
        )

    def _step(
        self, episode: Episode, step: messages.StepRequest, answer: messages.StepResponse
    ) -> None:
        message = tensor_utils.unpack_tensor(step.actions[MESSAGE]) if step.actions else "ready"
        observed = episode.observation(message)
        answer.state = messages.EnvironmentStateType.RUNNING
        answer.observations[OBSERVED].CopyFrom(tensor_utils.pack_tensor(observed))
        answer.observations[REWARD].CopyFrom(tensor_utils.pack_tensor(1.0))


def main() -> None:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=options)
    servicer = Servicer(SHAPES[sys.argv[1]])
    dm_env_rpc_pb2_grpc.add_EnvironmentServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"READY http=127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
