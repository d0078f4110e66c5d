"""Many observations as one: numpy arrays where the items agree in shape, one copy each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from openenv_grpc.client.outcomes import Seen, fields_of
from openenv_grpc.errors import MissingDependencyError
from openenv_grpc.wire.alike import AlikePayload, Likeness

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = frozenset({bool, int, float})


@functools.cache
def numpy_module() -> Any:
    """Returns numpy, which is an extra."""
    try:
        import numpy
    except ImportError as error:
        raise MissingDependencyError(
            "batches need numpy: pip install 'openenv-grpc[numpy]'"
        ) from error
    return numpy


class Stack:
    """Makes batches, in the same memory each time if `reuse` says so."""

    def __init__(self, *, reuse: bool) -> None:
        self._reuse = reuse
        self._kept: dict[tuple[str, ...], NDArray[Any]] = {}

    def observations(self, items: Sequence[Seen]) -> Any:
        """Returns observations as one, see `stacked`."""
        first = items[0]
        if isinstance(first, AlikePayload) and all(
            isinstance(item, AlikePayload) and item.likeness is first.likeness for item in items
        ):
            return self._alike(first.likeness, cast("Sequence[AlikePayload]", items))
        return self.stacked([fields_of(item) for item in items])

    def _alike(self, known: Likeness, items: Sequence[AlikePayload]) -> dict[str, Any]:
        numpy, count = numpy_module(), len(items)
        joined = numpy.frombuffer(b"".join([item.data for item in items]), numpy.uint8)
        elements = joined.reshape(count, known.size_bytes)[:, len(known.head) :]
        out = self._memory((count, *known.shape), known.dtype, (known.field,))
        out.reshape(count, -1).view(numpy.uint8)[...] = elements
        return {
            name: out if name == known.field else self.stacked([value] * count, (name,))
            for name, value in known.fields().items()
            if name != "metadata"
        }

    def stacked(self, items: Sequence[Any], path: tuple[str, ...] = ()) -> Any:
        """Returns items of one place as one.

        Arrays that agree in shape and type, numbers, and lists of numbers that agree in length
        become an array with one dimension more, in front; mappings with the same keys a mapping of
        batches; everything else a tuple.
        """
        first = items[0]
        numpy = numpy_module()
        if isinstance(first, numpy.ndarray):
            return self._arrays(items, path)
        if type(first) in _NUMBERS:
            return _numbers(items) if _NUMBERS.issuperset(map(type, items)) else tuple(items)
        if isinstance(first, dict):
            keys = first.keys()
            if all(isinstance(item, dict) and item.keys() == keys for item in items):
                return {
                    key: self.stacked([item[key] for item in items], (*path, key)) for key in keys
                }
        elif isinstance(first, list) and first and _are_numeric(items):
            return _numbers(items)
        return tuple(items)

    def _arrays(self, items: Sequence[Any], path: tuple[str, ...]) -> Any:
        numpy = numpy_module()
        dtype, shape = items[0].dtype, items[0].shape
        for item in items:
            if not isinstance(item, numpy.ndarray) or item.shape != shape or item.dtype != dtype:
                return tuple(items)
        out = self._memory((len(items), *shape), dtype.newbyteorder("="), path)
        if shape:
            numpy.concatenate(items, out=out.reshape(len(items) * shape[0], *shape[1:]))
        else:
            out[:] = items
        return out

    def _memory(self, shape: tuple[int, ...], dtype: Any, path: tuple[str, ...]) -> NDArray[Any]:
        numpy = numpy_module()
        kept = self._kept.get(path)
        if kept is not None and kept.shape == shape and kept.dtype == dtype:
            return kept
        made: NDArray[Any] = numpy.empty(shape, dtype)
        if self._reuse:
            self._kept[path] = made
        return made


def _numbers(items: Sequence[Any]) -> Any:
    try:
        found = numpy_module().array(items)
    except (ValueError, OverflowError):  # lists that differ in length
        return tuple(items)
    return found if found.dtype.kind in "biuf" else tuple(items)


def _are_numeric(items: Sequence[Any]) -> bool:
    """Tells whether there is nothing but numbers in lists that are nested alike."""
    kinds = set(map(type, items))
    if kinds != {list}:
        return _NUMBERS.issuperset(kinds)
    return _are_numeric(list(chain.from_iterable(items)))
