"""Environments saved as bytes and made anew from them, with what the engine keeps beside.

Nothing here is pickled: a snapshot that comes from a worker process goes to another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from openenv_grpc.engine import adapt, declared
from openenv_grpc.engine.adapt import Shape
from openenv_grpc.engine.books import Books, read_random_state, write_random_state
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import NotSupportedError
from openenv_grpc.operations import Kind, Operation, Result, WritingCodec

AT_ONCE = frozenset({Kind.STATE, Kind.SNAPSHOT, Kind.RESTORE})
"""What environments on the event loop do there, too, where it is not awaited."""

_SIZE_BYTES = 4


class _ContentCodec(WritingCodec):
    """Passes on bytes that the engine made."""

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Returns them."""
        return result if isinstance(result, bytes) else b""


_CODEC = _ContentCodec()


def saving() -> Operation:
    """Makes the operation whose content is a snapshot."""
    return Operation(kind=Kind.SNAPSHOT, codec=_CODEC)


def restoring(content: bytes) -> Operation:
    """Makes the operation that has a new environment go on from a snapshot."""
    return Operation(kind=Kind.RESTORE, codec=_CODEC, payload=content)


# Where the environment runs


def reader(environment: Any, shape: Shape) -> Callable[[], Any]:
    """Returns what reads an environment's state as bytes.

    Raises:
        NotSupportedError: it has no such thing.
    """
    if shape.snapshot is not None:
        return partial(shape.snapshot.call, environment)
    return partial(declared.write, environment, shape.cls, _declared(environment, shape))


def writer(environment: Any, shape: Shape, content: bytes) -> Callable[[], Any]:
    """Returns what has an environment take the state that another one's reader read.

    Raises:
        NotSupportedError: it has no such thing.
    """
    if shape.restore is not None:
        return partial(shape.restore.call, environment, content)
    return partial(declared.read, environment, shape.cls, _declared(environment, shape), content)


def _declared(environment: Any, shape: Shape) -> tuple[str, ...]:
    """Returns the attributes that are the state. Raises `NotSupportedError` if they are not all."""
    name = shape.cls.__name__
    if shape.snapshot_fields is None:
        raise NotSupportedError(
            f"{name} cannot be saved: it has no snapshot() and restore(), and names no "
            "SNAPSHOT_FIELDS"
        )
    if adapt.remembers_steps(environment):
        raise NotSupportedError(
            f"{name} cannot be saved by its SNAPSHOT_FIELDS, since its rubric remembers the steps "
            "of the episode; write snapshot() and restore()"
        )
    return shape.snapshot_fields


def whole(environment: Any, books: Books, content: Any, *, own_rng: bool) -> bytes:
    """Joins an environment's bytes with what the engine keeps.

    Raises:
        TypeError: its author's `snapshot` returned something else.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"snapshot() returned {type(content).__name__}, not bytes")
    kept = {
        "books": books.saved(),
        "random": None if own_rng else write_random_state(environment.rng),
    }
    head = json.dumps(kept).encode()
    return b"".join((len(head).to_bytes(_SIZE_BYTES), head, content))


def begin(environment: Any, books: Books, snapshot: bytes, *, own_rng: bool) -> bytes:
    """Takes up what the engine kept. Returns the environment's bytes."""
    end = _SIZE_BYTES + int.from_bytes(snapshot[:_SIZE_BYTES])
    kept = json.loads(snapshot[_SIZE_BYTES:end])
    books.restore(kept["books"])
    if not own_rng and kept["random"] is not None:
        environment.rng = read_random_state(kept["random"])
    return snapshot[end:]
