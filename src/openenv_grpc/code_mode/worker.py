"""What runs in an interpreter's process: the code of an agent, with tools as functions.

It is run by its path, with the standard library alone: nothing of the server is in this process.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import resource
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_NEW_USER_AND_NETWORK = 0x10000000 | 0x40000000  # CLONE_NEWUSER, CLONE_NEWNET
_SOURCE = "<code>"
_MAX_FILE_BYTES = 64 * 2**20


def main(connection: int, pipe: int, parent: int, memory_bytes: int, cpu_s: int) -> None:
    """Runs one piece of code and tells what came of it."""
    for descriptor in (connection, pipe):
        os.set_inheritable(descriptor, False)
    _restrict(memory_bytes, cpu_s)
    _beside("../lifeline.py").tie(pipe, parent=parent)
    channel = _beside("channel.py").Channel(socket.socket(fileno=connection))
    request = channel.receive()
    tools = RemoteTools(channel)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    namespace.update({name: tools.function(name) for name in request["tools"]})
    channel.send({"done": _outcome(request["code"], namespace)})


def _restrict(memory_bytes: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        # Without a network, where the kernel lets anybody have such a place.
        library.unshare(_NEW_USER_AND_NETWORK)


def _beside(path: str) -> ModuleType:
    """Imports a file of ours, without the package, which would take its time."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), path)
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RemoteTools:
    """Has tools called by the server, one call at a time."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._turn = threading.Lock()  # a call and its answer, whichever thread it is of

    def function(self, name: str) -> Callable[..., Any]:
        """Makes the function that calls a tool."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._turn:
                self._channel.send({"call": name, "args": args, "kwargs": kwargs})
                answer = self._channel.receive()
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer["value"]

        call.__name__ = call.__qualname__ = name
        return call


def _outcome(code: str, namespace: dict[str, Any]) -> dict[str, Any]:
    try:
        exec(compile(code, _SOURCE, "exec"), namespace)
        return {"result": _plain(namespace.get("result"))}
    except SyntaxError as error:
        return {"error": f"Syntax error: {error.msg}, line {error.lineno}"}
    except BaseException as error:  # code may even raise SystemExit
        with suppress(Exception):
            return {"error": _told(error)}
        return {"error": type(error).__name__}
    finally:
        with suppress(Exception):
            sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it; what JSON does not have, as text."""
    try:
        return json.loads(json.dumps(value, default=repr))
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _told(error: BaseException) -> str:
    """Tells what was raised, and where in the code."""
    lines = [
        str(frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == _SOURCE
    ]
    kind, text = type(error).__name__, str(error)
    where = f", line {', called at line '.join(reversed(lines))}" if lines else ""
    return f"{kind}: {text}{where}" if text else kind + where


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
