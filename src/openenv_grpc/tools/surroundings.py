"""What surrounds a call of a tool: values that reach it whatever it is awaited by."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


def within(variable: ContextVar[ValueT], value: ValueT, call: Callable[[], Any]) -> Any:
    """Makes a call in which a variable has a value, even in what of it is awaited later."""
    token = variable.set(value)
    try:
        result = call()
    finally:
        variable.reset(token)
    return _later(variable, value, result) if isawaitable(result) else result


async def _later(variable: ContextVar[ValueT], value: ValueT, result: Any) -> Any:
    token = variable.set(value)
    try:
        return await result
    finally:
        variable.reset(token)
