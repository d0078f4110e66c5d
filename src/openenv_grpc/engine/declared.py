"""State that is data: attributes that an author has named, as bytes and back."""

from __future__ import annotations

import base64
import dataclasses
import functools
import importlib
import inspect
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_type_hints

from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter

_ARRAY = "$array"


def write(environment: Any, cls: type, names: tuple[str, ...]) -> bytes:
    """Writes the named attributes. Those that are not set stay so.

    Raises:
        TypeError: one has a value that would not come back as it is.
    """
    texts = {}
    for name, adapter in _adapters(cls, names).items():
        try:
            value = getattr(environment, name)
        except AttributeError:  # as before the first reset
            continue
        texts[name] = _write(cls, name, value, adapter)
    return json.dumps(texts).encode()


def read(environment: Any, cls: type, names: tuple[str, ...], content: bytes) -> None:
    """Sets the attributes to what `write` wrote, and takes away those that were not set."""
    texts = json.loads(content)
    for name, adapter in _adapters(cls, names).items():
        if name in texts:
            setattr(environment, name, _read(texts[name], adapter))
        else:
            with suppress(AttributeError):
                delattr(environment, name)


@functools.lru_cache(maxsize=1024)
def _adapters(cls: type, names: tuple[str, ...]) -> dict[str, TypeAdapter[Any] | None]:
    return {name: _adapter(cls, name) for name in names}


def _adapter(cls: type, name: str) -> TypeAdapter[Any] | None:
    """Returns what reads and writes values of the declared type; `None` for plain data."""
    declared = _annotation(cls, name)
    if declared is None:
        return None
    try:
        return TypeAdapter(declared)
    except PydanticSchemaGenerationError:  # arrays, for one
        return None


def _annotation(cls: type, name: str) -> Any:
    """Returns the type that a class declares for an attribute; `None` if it declares none."""
    for base in cls.__mro__:
        declared = inspect.get_annotations(base)
        if name in declared:
            # A class of this one alone, since others may name what is there for type checkers only.
            alone = type("", (), {"__annotations__": {name: declared[name]}})
            alone.__module__ = base.__module__
            return get_type_hints(alone, include_extras=True)[name]
    return None


def _write(cls: type, name: str, value: Any, adapter: TypeAdapter[Any] | None) -> str:
    try:
        if adapter is None:
            text = json.dumps(value, default=_array_as_plain)
        else:
            plain = adapter.dump_python(value, mode="json", round_trip=True, warnings="error")
            text = json.dumps(plain)
        if _same(value, _read(text, adapter)):
            return text
        why = "it would come back as something else"
    except (TypeError, ValueError) as error:
        why = str(error)
    raise TypeError(
        f"the attribute {name!r} of {cls.__name__} cannot be saved as data ({why}): declare "
        "its type in the class, or write snapshot() and restore()"
    )


def _read(text: str, adapter: TypeAdapter[Any] | None) -> Any:
    if adapter is None:
        return json.loads(text, object_hook=_array_of_plain)
    return adapter.validate_json(text, by_name=True)


def _array_as_plain(value: Any) -> dict[str, Any]:
    interface = _array_interface(value)
    if interface is None:
        raise TypeError(f"a {type(value).__name__} is no plain data")
    data = base64.b64encode(value.tobytes()).decode()
    return {_ARRAY: [interface["typestr"], interface["shape"], data]}


def _array_interface(value: Any) -> Mapping[str, Any] | None:
    """Describes a numpy array of plain numbers; `None` for anything else."""
    if type(value).__module__ != "numpy" or type(value).__name__ != "ndarray":
        return None
    interface: Mapping[str, Any] = value.__array_interface__
    return None if interface["typestr"][1] in "OV" else interface


def _array_of_plain(value: dict[str, Any]) -> Any:
    if value.keys() != {_ARRAY}:
        return value
    numpy = importlib.import_module("numpy")
    dtype, shape, data = value[_ARRAY]
    return numpy.frombuffer(bytearray(base64.b64decode(data)), dtype).reshape(shape)


def _same(value: Any, other: Any) -> bool:
    """Tells whether a value has come back as it was, to the last type."""
    if type(value) is not type(other):
        return False
    match value:
        case float():
            return value == other or (math.isnan(value) and math.isnan(other))
        case list() | tuple():
            return len(value) == len(other) and all(map(_same, value, other))
        case dict():
            # In the same order, by which some environments go.
            return _same([*value.items()], [*other.items()])
        case BaseModel():
            return _same(_parts(value), _parts(other))
        case _ if dataclasses.is_dataclass(value):
            return all(
                _same(getattr(value, field.name), getattr(other, field.name))
                for field in dataclasses.fields(value)
            )
    interface = _array_interface(value)
    if interface is None:
        return bool(value == other)
    same_kind = (value.dtype, value.shape) == (other.dtype, other.shape)
    return same_kind and bool(value.tobytes() == other.tobytes())


def _parts(model: BaseModel) -> list[Any]:
    fields = dict(sorted(vars(model).items()))
    return [fields, model.__pydantic_extra__, model.__pydantic_private__]
