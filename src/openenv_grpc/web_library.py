"""aiohttp without its half for clients, until somebody asks for that."""

from __future__ import annotations

import sys
import threading
from importlib import import_module, metadata
from importlib.util import find_spec, module_from_spec
from types import ModuleType

NAME = "aiohttp"


def leave_client_out() -> None:
    """Has `import aiohttp` load nothing by itself, where it is not loaded yet.

    `aiohttp/__init__.py` imports the client, which reads the certificates of all authorities, and
    takes longer than the half for servers. It runs when one of its names is first asked for, so
    that whoever imports aiohttp, now or later, finds the whole of it. It holds for the whole
    process, so only programs of ours ask for it.
    """
    if NAME in sys.modules:
        return
    spec = find_spec(NAME)
    if spec is None:
        return  # whoever imports it is told
    package = module_from_spec(spec)
    try:
        vars(package)["__version__"] = metadata.version(NAME)  # which its half for servers reads
    except metadata.PackageNotFoundError:
        return  # it was not installed by pip, and is loaded as ever
    package.__class__ = _Package
    sys.modules[NAME] = package


class _Package(ModuleType):
    """The package before its `__init__.py` has run. Its modules can be imported."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        # Under no lock of ours, since what imports it may hold one that a client's module needs.
        if find_spec(f"{NAME}.{name}") is not None:
            return import_module(f"{NAME}.{name}")
        with _lock:
            if type(self) is _Package:
                _run(self)
        return ModuleType.__getattribute__(self, name)


class _Running(_Package):
    """The package while it runs, and asks for names of its own."""


_lock = threading.RLock()  # so that threads which ask for a name wait until it is there


def _run(package: _Package) -> None:
    spec = package.__spec__
    assert spec is not None
    assert spec.loader is not None
    package.__class__ = _Running
    try:
        spec.loader.exec_module(package)
    except BaseException:
        package.__class__ = _Package
        raise
    package.__class__ = ModuleType  # type: ignore[assignment]  # it is one again
