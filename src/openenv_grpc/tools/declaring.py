"""Functions and methods under a decorator, as an object has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, ClassVar, TypeVar

from openenv_grpc.tools.signatures import Signature

DeclaredT = TypeVar("DeclaredT", bound="DeclaredFunction")


class DeclaredFunction:
    """A function or method under a decorator. It can still be called as what it was."""

    kind: ClassVar[str]
    """What the decorator makes of it, for messages."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._signature: Signature | None = None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self.function.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.function(*args, **kwargs)

    def signature_of(self, call: Callable[..., Any]) -> Signature:
        """Returns what `call` takes: this function, or this method of some object."""
        if self._signature is None:
            self._signature = Signature(call, kind=self.kind)  # the same for each instance
        return self._signature


def declared(owner: object, kind: type[DeclaredT]) -> Iterator[DeclaredT]:
    """Finds what the class of an object declares, of one kind, bases first."""
    attributes: dict[str, object] = {}
    for base in reversed(type(owner).__mro__):
        attributes.update(vars(base))
    for attribute in attributes.values():
        if isinstance(attribute, kind):
            yield attribute
