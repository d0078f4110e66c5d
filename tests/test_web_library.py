"""aiohttp without its half for clients: what is loaded, and that the whole is there if asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import sys
from openenv_grpc.web_library import leave_client_out
leave_client_out()
"""


def run(program: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", START + program],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_the_half_for_servers_is_loaded_without_the_client() -> None:
    program = "from aiohttp import hdrs, web; print('aiohttp.client' in sys.modules)"

    assert run(program) == "False"


@pytest.mark.parametrize(
    "asking",
    [
        "import aiohttp; found = aiohttp.ClientSession",
        "from aiohttp import web, ClientSession as found",
        "from aiohttp.client import ClientSession as found",
        "from aiohttp import *; found = ClientSession",
    ],
    ids=["an attribute", "a name", "its module", "all names"],
)
def test_the_client_is_there_for_whoever_asks_for_it(asking: str) -> None:
    program = "from aiohttp.client import ClientSession as real; print(found is real)"

    assert run(f"{asking}\n{program}") == "True"


def test_it_is_the_package_itself_afterwards() -> None:
    program = """
import types, importlib.metadata
import aiohttp
before = aiohttp.__version__
aiohttp.ClientSession
assert before == aiohttp.__version__ == importlib.metadata.version("aiohttp")
print(type(aiohttp) is types.ModuleType, sys.modules["aiohttp"] is aiohttp)
"""
    assert run(program) == "True True"


def test_what_aiohttp_has_not_is_an_attribute_error() -> None:
    program = """
import aiohttp
try:
    aiohttp.NothingOfTheKind
except AttributeError as error:
    print(error)
"""
    assert "no attribute" in run(program)


def test_threads_that_ask_at_once_all_find_it() -> None:
    program = """
import threading
from concurrent.futures import ThreadPoolExecutor
import aiohttp
gate = threading.Barrier(8)
def ask(number):
    gate.wait()
    return aiohttp.ClientSession if number % 2 else aiohttp.ClientTimeout
with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(ask, range(8)))))
"""
    assert run(program) == "2"


def test_a_client_half_that_fails_says_so_each_time() -> None:
    program = """
import aiohttp
sys.modules["aiohttp.connector"] = None
for _ in range(2):
    try:
        aiohttp.ClientSession
    except ImportError as error:
        print("connector" in str(error))
del sys.modules["aiohttp.connector"]
print(aiohttp.ClientSession.__name__)
"""
    assert run(program).split() == ["True", "True", "ClientSession"]


def test_without_metadata_aiohttp_is_loaded_as_ever() -> None:
    program = """
import importlib.metadata
def version(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
del sys.modules["aiohttp"]
leave_client_out()
from aiohttp import web
print("aiohttp.client" in sys.modules)
"""
    assert run(program) == "True"


def test_where_aiohttp_is_loaded_nothing_changes() -> None:
    program = "import aiohttp; before = aiohttp; leave_client_out(); import aiohttp as after"

    whole = "del sys.modules['aiohttp']; "
    assert run(f"{whole}{program}; print(before is after)") == "True"
