"""How the values of a space travel: what is sent for them, and what is made of what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from gymnasium import spaces

from openenv_grpc.errors import ConfigurationError

Space = spaces.Space[Any]
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A space, and the way from its values to what travels and back."""

    space: Space
    encode: Convert
    """Makes of a value of the space what is sent."""
    decode: Convert
    """Makes of what came a value of the space."""
    batched: bool = False
    """Whether a batch of values is sent, and comes, as the array that it is."""


def form_of_space(space: Space) -> Form:
    """Returns how the values of a space travel as `served.field_type` declares them.

    Raises:
        ConfigurationError: they cannot travel.
    """
    match space:
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return array_form(space)
        case spaces.Discrete():
            return Form(space=space, encode=int, decode=numpy.int64, batched=True)
        case spaces.Text():
            return Form(space=space, encode=str, decode=str)
        case spaces.Tuple():
            return _tuple_form([form_of_space(part) for part in space.spaces])
        case spaces.Dict():
            return dict_form({name: form_of_space(part) for name, part in space.spaces.items()})
        case _:
            raise ConfigurationError(f"values of a {type(space).__name__} space cannot travel")


def array_form(space: Space, *, dtype: Any = None) -> Form:
    """Returns how arrays travel, as such of the space's type or of another."""
    own = space.dtype
    sent = own if dtype is None else numpy.dtype(dtype)
    return Form(
        space=space,
        encode=lambda value: numpy.asarray(value, sent),
        decode=lambda value: numpy.array(value, own),  # a copy, since what came is read-only
        batched=sent == own,
    )


def dict_form(parts: Mapping[str, Form]) -> Form:
    """Returns how mappings travel."""
    return Form(
        space=spaces.Dict({name: form.space for name, form in parts.items()}),
        encode=lambda value: {name: form.encode(value[name]) for name, form in parts.items()},
        decode=lambda value: {name: form.decode(value[name]) for name, form in parts.items()},
    )


def _tuple_form(parts: Sequence[Form]) -> Form:
    def encode(value: Any) -> tuple[Any, ...]:
        return tuple(form.encode(part) for form, part in zip(parts, value, strict=True))

    def decode(value: Any) -> tuple[Any, ...]:
        return tuple(form.decode(part) for form, part in zip(parts, value, strict=True))

    return Form(space=spaces.Tuple([form.space for form in parts]), encode=encode, decode=decode)
