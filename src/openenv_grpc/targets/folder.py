"""A folder with `openenv.yaml`: the app that it names, and what that was made of."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from openenv_grpc.app import App
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.targets.imports import find_spec, import_module, import_package
from openenv_grpc.targets.reference import recorded_apps

MANIFEST = "openenv.yaml"
DEFAULT_APP = "server.app:app"


def installed_package(name: str) -> Path | None:
    """Returns the folder of an importable package that has a manifest."""
    if not name.isidentifier():
        return None
    found = find_spec(name)
    for location in (found and found.submodule_search_locations) or ():
        if (Path(location) / MANIFEST).is_file():
            return Path(location)
    return None


def load_folder(folder: Path) -> EnvironmentDefinition:
    """Imports the app that a folder's manifest names.

    Raises:
        ConfigurationError: there is no manifest, or it names nothing that can be served.
    """
    manifest = _read_manifest(folder)
    app_path = str(manifest.get("app") or DEFAULT_APP)
    module_name, _, attribute = app_path.partition(":")
    with recorded_apps(folder) as apps:
        module = _import_from(folder, module_name)
    value = module.__dict__.get(attribute or "app")
    definition = value.definition if isinstance(value, App) else apps.definition(value)
    if definition is None:
        raise ConfigurationError(
            f"{folder / MANIFEST} names the app {app_path!r}, which is not made by create_app of "
            "openenv_grpc or of openenv.core; name one that is"
        )
    name = definition.name or str(manifest.get("name") or folder.name)
    return replace(definition, name=name)


def _read_manifest(folder: Path) -> dict[str, Any]:
    import yaml  # here, so that importing the package, which exports `serve`, stays quick

    path = folder / MANIFEST
    try:
        manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"the folder {str(folder)!r} is no environment: it has no {MANIFEST}"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(manifest, dict):
        raise ConfigurationError(f"{path} has to be a mapping with `name` and `app`")
    return manifest


def _import_from(folder: Path, module_name: str) -> ModuleType:
    """Imports a module of an environment's folder, as part of its package if it is one."""
    package = folder.name
    if (folder / "__init__.py").is_file() and package.isidentifier():
        # Files written to run both ways fall back on imports from the folder itself.
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        import_package(folder, package)
        return import_module(f"{package}.{module_name}")
    sys.path.insert(0, str(folder))
    module = import_module(module_name)
    if module.__file__ is None or not Path(module.__file__).is_relative_to(folder):
        raise ConfigurationError(
            f"{folder}: another module named {module_name} is loaded already; make the folder a "
            "package by an __init__.py"
        )
    return module
