"""The environments on the reference's classes, served as its documents do. Runs beside it.

`python -m bench.reference_server ENVIRONMENT reference|tuned` prints READY and the port once it
listens. Tuned it has uvloop, orjson, and no compression.
"""

from __future__ import annotations

import base64
import socket
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import uvicorn
from openenv.core.env_server import http_server
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

SESSIONS = 8192


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


class Sized(Tiny):
    """Shows a text as long as the action says, in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def step(self, action: TinyAction, timeout_s: Any = None, **keywords: Any) -> TinyObservation:
        size = int(action.message)
        if len(self._text) != size:
            self._text = "t" * size
        return TinyObservation(text=self._text, reward=1.0)


class Costly(Tiny):
    """Computes and sleeps for so long in every step."""

    WORK_S = 0.0
    SLEEP_S = 0.0

    def step(self, action: TinyAction, timeout_s: Any = None, **keywords: Any) -> TinyObservation:
        if self.WORK_S:
            end = time.thread_time() + self.WORK_S
            while time.thread_time() < end:
                sum(range(100))
        if self.SLEEP_S:
            time.sleep(self.SLEEP_S)
        return TinyObservation(text=action.message, reward=1.0)


class Works200us(Costly):
    WORK_S = 0.0002


class Works5ms(Costly):
    WORK_S = 0.005


class Sleeps1ms(Costly):
    SLEEP_S = 0.001


class ArrayAction(Action):
    values: list[float]


class ArrayObservation(Observation):
    values: list[float]


class Arrays(Tiny):
    """A step of four numbers, which shows sixteen."""

    def __init__(self) -> None:
        super().__init__()
        self._values = np.zeros(16, np.float32)

    def reset(self, seed: Any = None, episode_id: Any = None, **keywords: Any) -> ArrayObservation:
        return ArrayObservation(values=self._values.tolist())

    def step(self, action: ArrayAction, timeout_s: Any = None, **keywords: Any) -> ArrayObservation:
        self._values[:4] = action.values
        return ArrayObservation(values=self._values.tolist(), reward=1.0)


class FrameObservation(Observation):
    pixels: list[int] | str
    shape: list[int]


class ListFrame(Tiny):
    """Shows a frame as a list of integers, as the reference's Atari does."""

    shape = (84, 84, 4)

    def __init__(self) -> None:
        super().__init__()
        self._pixels = np.zeros(self.shape, np.uint8)
        self._noise = np.random.default_rng(0).integers(0, 256, self.shape, np.uint8)

    def reset(self, seed: Any = None, episode_id: Any = None, **keywords: Any) -> FrameObservation:
        return self.shown()

    def step(self, action: TinyAction, timeout_s: Any = None, **keywords: Any) -> FrameObservation:
        self._steps += 1
        part = len(self._noise) // 4
        self._pixels[:part] = self._noise[:part] ^ (self._steps & 0xFF)
        return self.shown()

    def shown(self) -> FrameObservation:
        return FrameObservation(pixels=self.written(), shape=list(self.shape), reward=1.0)

    def written(self) -> list[int] | str:
        return self._pixels.ravel().tolist()


class Base64Frame(ListFrame):
    """Shows it in base64."""

    def written(self) -> list[int] | str:
        return base64.b64encode(self._pixels.tobytes()).decode()


class ListMegabyte(ListFrame):
    shape = (512, 512, 4)


class Base64Megabyte(Base64Frame):
    shape = (512, 512, 4)


CLASSES: dict[type[Tiny], tuple[type[Action], type[Observation]]] = {
    **dict.fromkeys((Tiny, Sized, Works200us, Works5ms, Sleeps1ms), (TinyAction, TinyObservation)),
    Arrays: (ArrayAction, ArrayObservation),
    **dict.fromkeys(
        (ListFrame, Base64Frame, ListMegabyte, Base64Megabyte), (TinyAction, FrameObservation)
    ),
}
ENVIRONMENTS = {environment.__name__: environment for environment in CLASSES}


class Server(uvicorn.Server):
    """Says when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"READY http=127.0.0.1:{port}", flush=True)


def main() -> None:
    name, kind = sys.argv[1:]
    environment = ENVIRONMENTS[name]
    app = http_server.create_app(environment, *CLASSES[environment], max_concurrent_envs=SESSIONS)
    tuned = kind == "tuned"
    if tuned:  # there is no setting for it
        http_server.json = SimpleNamespace(
            dumps=lambda value: orjson.dumps(value).decode(),
            loads=orjson.loads,
            JSONDecodeError=orjson.JSONDecodeError,
        )
    # The reference does not install uvloop. It is here as a dependency of ours, and unless told
    # otherwise uvicorn would take it.
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", access_log=False,
        loop="uvloop" if tuned else "asyncio", ws_per_message_deflate=not tuned,
    )  # fmt: skip
    Server(config).run()


if __name__ == "__main__":
    main()
