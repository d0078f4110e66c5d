"""Tells the kinds of target apart, and applies what was said beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openenv_grpc.app import App, read_mode
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.serialization import model_type
from openenv_grpc.targets.folder import MANIFEST, installed_package, load_folder
from openenv_grpc.targets.imports import import_attribute
from openenv_grpc.targets.typehints import find_types

GYMNASIUM = "gym:"
"""What stands before the id of an environment of Gymnasium."""


Target = str | App | EnvironmentDefinition
"""An environment: what `openenv-grpc serve` takes, what `create_app` returns, or a definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What is said beside a target, as `module:Class`; `None` leaves it to the environment."""

    name: str | None = None
    action: str | None = None
    observation: str | None = None
    state: str | None = None


def definition_of(target: Target) -> EnvironmentDefinition:
    """Finds what a target names. Raises what `load` raises."""
    match target:
        case str():
            return load(target)
        case App():
            return target.definition
        case EnvironmentDefinition():
            return target


def load(target: str, overrides: Overrides = Overrides()) -> EnvironmentDefinition:
    """Finds what a target names: an installed environment, a folder, `module:Class`, `gym:ID`.

    Raises:
        ConfigurationError: there is no such thing, or it is no environment.
    """
    path = Path(target)
    if target.startswith(GYMNASIUM):
        return _override(_load_gymnasium(target.removeprefix(GYMNASIUM)), overrides)
    if ":" in target and not path.is_dir():
        return _load_class(target, overrides)
    package = installed_package(target)
    if package is not None:
        return _override(load_folder(package), overrides)
    if path.is_dir():
        return _override(load_folder(path.resolve()), overrides)
    raise ConfigurationError(
        f"there is no environment {target!r}: it is neither an installed package with {MANIFEST}, "
        f"nor a folder with one, nor module:Class, nor gym:ENVIRONMENT of Gymnasium"
    )


def _load_gymnasium(env_id: str) -> EnvironmentDefinition:
    try:
        # Imported here, since gymnasium is an extra.
        from openenv_grpc.gymnasium import gymnasium_environment
    except ImportError as error:
        raise ConfigurationError(
            f"{GYMNASIUM}{env_id} needs gymnasium: pip install 'openenv-grpc[gymnasium]'"
        ) from error
    return gymnasium_environment(env_id)


def _override(definition: EnvironmentDefinition, overrides: Overrides) -> EnvironmentDefinition:
    return replace(
        definition,
        name=overrides.name or definition.name,
        action_type=_model(overrides.action) or definition.action_type,
        observation_type=_model(overrides.observation) or definition.observation_type,
        state_type=_model(overrides.state) or definition.state_type,
    )


def _load_class(target: str, overrides: Overrides) -> EnvironmentDefinition:
    value = import_attribute(target)
    if isinstance(value, App):
        return _override(value.definition, overrides)
    if not callable(value):
        raise ConfigurationError(
            f"{target} is a {type(value).__name__}, not a class or function that builds an "
            "environment"
        )
    found = find_types(value)
    return EnvironmentDefinition(
        factory=value,
        action_type=_model(overrides.action) or _told(found.action, "action", target),
        observation_type=_model(overrides.observation)
        or _told(found.observation, "observation", target),
        state_type=_model(overrides.state) or found.state,
        name=overrides.name,
        mode=read_mode(None),
    )


def _told(found: Any, part: str, target: str) -> Any:
    if found is None:
        raise ConfigurationError(
            f"the {part} class of {target} cannot be told from its annotations; annotate its step, "
            f"or say --{part} module:Class"
        )
    return found


def _model(path: str | None) -> Any:
    if path is None:
        return None
    found = import_attribute(path)
    if not model_type(found):
        raise ConfigurationError(f"{path} is no pydantic model, nor a union of some")
    return found
