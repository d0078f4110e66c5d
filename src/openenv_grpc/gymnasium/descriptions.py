"""Spaces as JSON and back, exactly: the keyword `x-gymnasium-space` of a schema."""

from __future__ import annotations

from typing import Any

import numpy
from gymnasium import spaces

from openenv_grpc.errors import ConfigurationError, ProtocolViolationError
from openenv_grpc.gymnasium.forms import Space
from openenv_grpc.types import JsonValue

KEYWORD = "x-gymnasium-space"


def describe(space: Space) -> dict[str, JsonValue]:
    """Writes a space as JSON. Raises `ConfigurationError` for one that cannot be served."""
    match space:
        case spaces.Box():
            return {
                "type": "Box",
                "shape": list(space.shape),
                "dtype": numpy.dtype(space.dtype).name,
                "low": _numbers(space.low),
                "high": _numbers(space.high),
            }
        case spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {
                "type": "MultiDiscrete",
                "nvec": space.nvec.tolist(),
                "start": space.start.tolist(),
                "dtype": numpy.dtype(space.dtype).name,
            }
        case spaces.MultiBinary():
            return {"type": "MultiBinary", "shape": list(space.shape)}
        case spaces.Text():
            return {
                "type": "Text",
                "min_length": space.min_length,
                "max_length": space.max_length,
                "charset": "".join(sorted(space.character_set)),
            }
        case spaces.Tuple():
            return {"type": "Tuple", "spaces": [describe(part) for part in space.spaces]}
        case spaces.Dict():
            parts = {name: describe(part) for name, part in space.spaces.items()}
            return {"type": "Dict", "spaces": parts}
        case _:
            raise ConfigurationError(f"a {type(space).__name__} space cannot be served")


def read_space(described: JsonValue) -> Space:
    """Reads a space. Raises `ProtocolViolationError` if it is none."""
    try:
        return _read(described)
    except (TypeError, KeyError, ValueError, AssertionError, AttributeError) as error:
        raise ProtocolViolationError(
            f"the server's schema describes a space that is none: {error!r}"
        ) from error


def _read(described: JsonValue) -> Space:
    match described["type"]:
        case "Box":
            shape, dtype = tuple(described["shape"]), numpy.dtype(described["dtype"])
            low, high = _array(described["low"], dtype), _array(described["high"], dtype)
            return spaces.Box(
                numpy.broadcast_to(low, shape), numpy.broadcast_to(high, shape), shape, dtype.type
            )
        case "Discrete":
            return spaces.Discrete(described["n"], start=described["start"])
        case "MultiDiscrete":
            dtype = numpy.dtype(described["dtype"])
            nvec = numpy.array(described["nvec"], dtype)
            return spaces.MultiDiscrete(nvec, dtype.type, start=described["start"])
        case "MultiBinary":
            return spaces.MultiBinary(described["shape"])
        case "Text":
            return spaces.Text(
                described["max_length"],
                min_length=described["min_length"],
                charset=described["charset"],
            )
        case "Tuple":
            return spaces.Tuple([_read(part) for part in described["spaces"]])
        case "Dict":
            return spaces.Dict({name: _read(part) for name, part in described["spaces"].items()})
        case other:
            raise ValueError(f"type {other!r}")


def _numbers(bounds: Any) -> JsonValue:
    """Writes bounds: one number if all are equal, else nested lists; infinities by their names."""
    uniform = bounds.size > 0 and (bounds == bounds.flat[0]).all()
    return _named(bounds.flat[0].item() if uniform else bounds.tolist())


def _named(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_named(item) for item in value]
    if value in (numpy.inf, -numpy.inf):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _array(value: JsonValue, dtype: Any) -> Any:
    return numpy.array(value).astype(dtype)  # numpy reads the names of infinities
