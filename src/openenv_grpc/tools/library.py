"""The resources and prompts that the class of one object declares."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from inspect import isawaitable
from typing import Any, Protocol

from openenv_grpc.errors import InvalidArgumentsError, ResourceNotFoundError
from openenv_grpc.tools.declaring import declared
from openenv_grpc.tools.prompts import BoundPrompt, PromptAnswer, PromptFunction, PromptInfo
from openenv_grpc.tools.resources import (
    BoundResource,
    ResourceFunction,
    ResourceList,
    ResourceRead,
)
from openenv_grpc.types import JsonValue

Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs what is asynchronous to its end, and blocks."""


class Offers(Protocol):
    """What an environment offers to read, by calls that block."""

    def list_resources(self) -> ResourceList:
        """Lists resources and templates."""
        ...

    def read_resource(self, uri: str) -> ResourceRead:
        """Reads a resource. Raises `ResourceNotFoundError`."""
        ...

    def list_prompts(self) -> list[PromptInfo]:
        """Lists prompts."""
        ...

    def get_prompt(self, name: str, arguments: Mapping[str, JsonValue]) -> PromptAnswer:
        """Asks for a prompt. Raises `InvalidArgumentsError`, also where there is none."""
        ...


class Library:
    """Resources and prompts of one object. Implements `Offers`."""

    def __init__(self, owner: object, run: Run) -> None:
        self._run = run
        self._resources = [
            function.bound(function.__get__(owner))
            for function in declared(owner, ResourceFunction)
        ]
        self._prompts: dict[str, BoundPrompt] = {
            function.name: function.bound(function.__get__(owner))
            for function in declared(owner, PromptFunction)
        }

    def list_resources(self) -> ResourceList:
        """See `Offers`."""
        listed = ResourceList()
        for resource in self._resources:
            kept = listed.templates if resource.function.is_template else listed.resources
            kept.append(resource.info())
        return listed

    def find_resource(self, uri: str) -> tuple[BoundResource, dict[str, str]] | None:
        """Returns the resource of a URI and what the URI gives it; `None` if there is none."""
        for resource in sorted(self._resources, key=lambda each: each.function.is_template):
            arguments = resource.function.arguments(uri)
            if arguments is not None:
                return resource, arguments
        return None

    def read_resource(self, uri: str) -> ResourceRead:
        """See `Offers`."""
        found = self.find_resource(uri)
        if found is None:
            raise no_such_resource(uri)
        resource, arguments = found
        return resource.contents(uri, self._waited(resource.read(arguments)))

    def list_prompts(self) -> list[PromptInfo]:
        """See `Offers`."""
        return [prompt.info() for prompt in self._prompts.values()]

    def has_prompt(self, name: str) -> bool:
        """Tells whether there is a prompt of that name."""
        return name in self._prompts

    def get_prompt(self, name: str, arguments: Mapping[str, JsonValue]) -> PromptAnswer:
        """See `Offers`."""
        prompt = self._prompts.get(name)
        if prompt is None:
            raise no_such_prompt(name)
        return prompt.answer(self._waited(prompt.ask(arguments)))

    def _waited(self, value: Any) -> Any:
        return self._run(_result(value)) if isawaitable(value) else value


async def _result(value: Any) -> Any:
    return await value


def no_such_resource(uri: str) -> ResourceNotFoundError:
    """Makes the error for a URI of which there is no resource."""
    return ResourceNotFoundError(f"Unknown resource: {uri!r}", metadata={"uri": uri})


def no_such_prompt(name: str) -> InvalidArgumentsError:
    """Makes the error for a name of which there is no prompt."""
    return InvalidArgumentsError(f"Unknown prompt: {name!r}")
