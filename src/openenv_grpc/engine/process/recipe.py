"""What a worker process must know to build an environment as this process would."""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing.spawn
import pickle
import pickletools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from typing import Any

from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.engine.registry import (
    EngineSettings,
    RegisteredEnvironment,
    register,
)
from openenv_grpc.errors import ConfigurationError

_MAIN = ("init_main_from_name", "init_main_from_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a worker becomes able to build an environment."""

    definition: bytes
    """A pickled `EnvironmentDefinition`: it names classes by module and name."""
    main: Mapping[str, Any]
    """Where the program is, if the definition names something of it."""
    packages: Mapping[str, str]
    """Paths of packages that were imported from a place that is not searched, by name."""
    arguments: list[str]
    log_level: int
    redact_errors: bool
    memory_bytes: int | None
    otel: bool

    def cook(self) -> RegisteredEnvironment:
        """Imports the environment's module. Raises whatever that raises."""
        sys.argv[:] = self.arguments
        if self.main:
            multiprocessing.spawn.prepare(self.main)
        for name, path in self.packages.items():
            _import_package(name, path)
        definition: EnvironmentDefinition = pickle.loads(self.definition)
        # A limit of 1, since finding out whether there may be more could build an environment.
        return register(replace(definition, max_sessions=1), EngineSettings())


def write_recipe(definition: EnvironmentDefinition, settings: EngineSettings) -> bytes:
    """Writes an environment's recipe.

    Raises:
        ConfigurationError: another process could not find the environment.
    """
    pickled = _pickled(replace(definition, isolation="process"))
    names = {
        argument.partition(".")[0]
        for _, argument, _ in pickletools.genops(pickled)
        if isinstance(argument, str)
    }
    recipe = Recipe(
        definition=pickled,
        main=_main_program() if "__main__" in names else {},
        packages={name: path for name in names if (path := _own_place(name)) is not None},
        arguments=list(sys.argv),
        log_level=logging.getLogger().getEffectiveLevel(),
        redact_errors=settings.redact_errors,
        memory_bytes=settings.worker_memory_bytes,
        otel=settings.otel,
    )
    return pickle.dumps((list(sys.path), pickle.dumps(recipe)))


def _pickled(definition: EnvironmentDefinition) -> bytes:
    try:
        return pickle.dumps(definition)
    except Exception as error:  # a factory may be anything
        raise ConfigurationError(
            "isolation by process needs a factory and classes that another process can import by "
            f"module and name, which is not so: {error}"
        ) from error


def _main_program() -> dict[str, Any]:
    """Tells where `__main__` is, as `multiprocessing` does."""
    known = multiprocessing.spawn.get_preparation_data("openenv-grpc worker")
    found = {name: known[name] for name in _MAIN if name in known}
    if not found:
        raise ConfigurationError(
            "isolation by process needs an environment that another process can import; move it "
            "from the interactive session into a module"
        )
    return found


def _own_place(name: str) -> str | None:
    """Returns where a package is that is not where its name is searched."""
    module = sys.modules.get(name)
    spec = None if module is None else module.__spec__
    if spec is None or spec.origin is None or spec.submodule_search_locations is None:
        return None
    found = PathFinder.find_spec(name)
    return None if found is not None and found.origin == spec.origin else spec.origin


def _import_package(name: str, path: str) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
