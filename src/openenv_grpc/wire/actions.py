"""Actions read from payloads, and what is known of those that are alike."""

from __future__ import annotations

import functools
from typing import Any

from openenv_grpc.serialization import ActionReader
from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire import payloads
from openenv_grpc.wire.alike import Alike


def read_action(message: payload_pb2.Payload, reader: ActionReader) -> Any:
    """Reads an action. Raises `InvalidRequestError`, `InvalidActionError`."""
    if not message.attachments:
        return reader.from_json(message.json or payloads.text_of(message))
    alike = _alike(reader)
    if not alike.looks:
        return reader.from_value(payloads.decode_payload(message))
    recognized = alike.recognize(message)
    if recognized is not None:
        return reader.from_value(recognized.fields())
    value = payloads.decode_payload(message)
    if isinstance(value, dict):
        alike.learn(message, value)
    return reader.from_value(value)


@functools.lru_cache(maxsize=256)
def _alike(reader: ActionReader) -> Alike:
    """Returns what recognizes an environment's actions, in whichever threads it is asked."""
    return Alike()
