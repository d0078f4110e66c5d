"""Commands with many options: groups of them are dataclasses, whose fields are the options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command whose options are the fields of those parameters that are dataclasses.

    A field is annotated as a parameter would be: `Annotated[int, typer.Option(help=...)] = 1`.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if dataclasses.is_dataclass(parameter.annotation)
    }
    parameters = list(_expanded(signature.parameters.values(), groups))

    @functools.wraps(command)
    def grouped(**given: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            given[name] = group(**{field: given.pop(field) for field in fields})
        command(**given)

    vars(grouped)["__signature__"] = inspect.Signature(parameters)
    grouped.__annotations__ = {each.name: each.annotation for each in parameters}
    return grouped


def _expanded(parameters: Any, groups: dict[str, Any]) -> Iterator[Parameter]:
    for parameter in parameters:
        if parameter.name not in groups:
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
            continue
        group = groups[parameter.name]
        hints = get_type_hints(group, include_extras=True)
        for field in dataclasses.fields(group):
            yield Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
