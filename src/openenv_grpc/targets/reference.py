"""Apps made by the reference's `create_app`, taken for the classes that they were made of."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openenv_grpc import app
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.targets.imports import find_spec, import_module

Factory = Callable[..., Any]

MODULES = (
    "openenv.core.env_server.http_server",
    "openenv.core.env_server.web_interface",
    "openenv.core.env_server",
    "openenv.core",
)
"""Where authors import the factories from."""

FACTORIES: dict[str, Factory] = {
    "create_app": app.create_app,
    "create_fastapi_app": app.create_fastapi_app,
    "create_web_interface_app": app.create_web_interface_app,
}
"""Ours, of the same names and signatures."""

WEB_PAGE = frozenset(
    {
        "gradio_builder",
        "custom_tab_name",
        "custom_tab_primary",
        "show_default_tab",
        "title_override",
    }
)
"""Arguments that concern the web page alone."""

IMPORTS_REFERENCE = re.compile(r"^\s*(from|import)\s+openenv\b(?!_)", re.MULTILINE)


class RecordedApps:
    """What the reference's factories were called with."""

    def __init__(self) -> None:
        self._made: list[tuple[object, EnvironmentDefinition]] = []

    def record(self, made: object, definition: EnvironmentDefinition) -> None:
        """Notes what an app was made of."""
        self._made.append((made, definition))

    def definition(self, made: object) -> EnvironmentDefinition | None:
        """Returns what an app was made of, if it is one of those."""
        return next((definition for known, definition in self._made if known is made), None)


@contextmanager
def recorded_apps(folder: Path) -> Iterator[RecordedApps]:
    """Records what the reference's factories are called with inside the block.

    They still make their app, since authors add routes to it, but it is not what is served. Does
    nothing where the folder has no use for the reference, whose import takes seconds, or where it
    is not installed.
    """
    apps = RecordedApps()
    if find_spec("openenv") is None or not _uses_reference(folder):
        yield apps
        return
    modules = [import_module(name) for name in MODULES]
    make: Factory = modules[0].create_fastapi_app
    patched = [
        (module, name, module.__dict__[name])
        for module in modules
        for name in FACTORIES
        if name in module.__dict__
    ]
    for module, name, _ in patched:
        setattr(module, name, _recording(apps, FACTORIES[name], make))
    try:
        yield apps
    finally:
        for module, name, original in patched:
            setattr(module, name, original)


def _recording(apps: RecordedApps, ours: Factory, make: Factory) -> Factory:
    signature = inspect.signature(ours)

    @functools.wraps(ours)
    def create(*positional: Any, **named: Any) -> Any:
        definition = ours(*positional, **named).definition
        arguments = signature.bind(*positional, **named).arguments
        made = make(**{key: value for key, value in arguments.items() if key not in WEB_PAGE})
        apps.record(made, definition)
        return made

    return create


def _uses_reference(folder: Path) -> bool:
    sources = (path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.py"))
    return any(IMPORTS_REFERENCE.search(source) for source in sources)
