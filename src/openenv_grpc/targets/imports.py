"""Importing what authors wrote, with errors that are one line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from openenv_grpc.errors import ConfigurationError


def import_module(name: str) -> ModuleType:
    """Imports a module.

    Raises:
        ConfigurationError: there is none, or it raised something.
    """
    try:
        return importlib.import_module(name)
    except ConfigurationError:
        raise  # from `create_app`: tells its own story
    except (Exception, SystemExit) as error:  # an author's module may raise anything
        raise _failed(name, error) from error


def import_package(folder: Path, name: str) -> None:
    """Makes a folder importable as a package, wherever it lies.

    Raises:
        ConfigurationError: another package has that name, or it raised something.
    """
    specification = find_spec(name)
    for location in (specification and specification.submodule_search_locations) or ():
        if Path(location).resolve() == folder.resolve():
            return
    if name in sys.modules:
        raise ConfigurationError(
            f"{folder}: another package named {name} is loaded already; rename the folder"
        )
    found = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if found is None or found.loader is None:
        raise ConfigurationError(f"{folder}: __init__.py is no Python module")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # an author's module may raise anything
        del sys.modules[name]
        raise _failed(name, error) from error


def import_attribute(path: str) -> Any:
    """Imports `module:name`. The current folder is searched too, as `python -m` does.

    Raises:
        ConfigurationError: there is no such thing.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ConfigurationError(f"{path!r} has to be of the form module:Class")
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    value: Any = import_module(module_name)
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            raise ConfigurationError(
                f"there is no {attribute!r} in the module {module_name}"
            ) from error
    return value


def find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Looks for a top-level module without importing it."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _failed(name: str, error: BaseException) -> ConfigurationError:
    what = " ".join(str(error).split())
    return ConfigurationError(f"{name} cannot be imported: {type(error).__name__}: {what}")
