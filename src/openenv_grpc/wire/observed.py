"""What a reset or a step led to, serialized by hand: the bytes are those that protobuf makes.

Messages would cost more than all the rest of a step, and three copies of each array for the one
that is made here.
"""

from __future__ import annotations

import functools
import struct

from openenv_grpc.operations import Observed
from openenv_grpc.serialization import BESIDE, model_fields
from openenv_grpc.wire import payloads
from openenv_grpc.wire.payload_bytes import attachments_of, json_head
from openenv_grpc.wire.varints import varint

# Tags of fields: the number, and how what follows is written. Those of `StepResult`,
# `ResetEpisodeResult`, `StepResponse` and `ResetResponse` are alike.
_OBSERVATION = b"\x0a"  # 1
_REWARD = 0x11  # 2
_TERMINATED = b"\x18\x01"  # 3, true
_TRUNCATED = b"\x20\x01"  # 4, true

_pack_reward = struct.Struct("<Bd").pack


def write_observed(
    result: Observed, rest: bytes = b"", *, before: bytes = b"", tag: bytes = b""
) -> bytes:
    """Serializes observation, reward and end, with the `rest` of their message behind them.

    `tag` makes it a field of another message, of which `before` has other fields.

    Raises:
        UnserializableResultError: the observation holds something that JSON cannot carry.
    """
    text, apart = payloads.take_apart(model_fields(result.observation, beside=BESIDE))
    if result.truncated:
        rest = _TRUNCATED + rest
    elif result.done:
        rest = _TERMINATED + rest
    if result.reward is not None:
        rest = _pack_reward(_REWARD, float(result.reward)) + rest
    if not apart:
        return b"".join((before, _head(tag, len(text), 0, len(rest)), text, rest))
    attachments = attachments_of(apart)
    head = _head(tag, len(text), sum(map(len, attachments)), len(rest))
    return b"".join((before, head, text, *attachments, rest))


@functools.lru_cache(maxsize=4096)  # lengths come again and again
def _head(tag: bytes, text_size: int, attached_size: int, rest_size: int) -> bytes:
    """Writes tags and lengths: what stands before the JSON."""
    text = json_head(text_size)
    payload_size = len(text) + text_size + attached_size
    payload = _OBSERVATION + varint(payload_size) + text
    if not tag:
        return payload
    size = len(payload) - len(text) + payload_size + rest_size
    return tag + varint(size) + payload
