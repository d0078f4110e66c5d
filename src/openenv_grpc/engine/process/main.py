"""What runs in a worker process: it imports an environment's module, and waits for a session."""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import pickle
import socket
import traceback

from openenv_grpc import lifeline, tracing
from openenv_grpc.engine.blocks import keep_blocks
from openenv_grpc.engine.process import memory
from openenv_grpc.engine.process.frames import FrameKind
from openenv_grpc.engine.process.line import Line, LogSender
from openenv_grpc.engine.process.recipe import Recipe
from openenv_grpc.engine.process.resident import Resident


def main(connection: int, file: int, pipe: int, parent: int, content: bytes) -> None:
    """Serves one session and returns."""
    lifeline.tie(pipe, parent=parent)
    faulthandler.enable()
    recipe: Recipe = pickle.loads(content)
    keep_blocks()
    line = Line(socket.socket(fileno=connection), file)
    logging.basicConfig(level=recipe.log_level, handlers=[LogSender(line)])
    try:
        if recipe.memory_bytes is not None:
            memory.limit(recipe.memory_bytes)
        if recipe.otel:
            tracing.configure()
        registered = recipe.cook()
    except BaseException:  # an author's module may even raise SystemExit
        line.send(FrameKind.FAILED, facts=json.dumps(traceback.format_exc()).encode())
        return
    gc.freeze()  # what was imported stays: neither the imports nor the steps pay for looking at it
    gc.enable()
    line.send(FrameKind.WARM)
    Resident(registered, line, redact_errors=recipe.redact_errors).serve()
