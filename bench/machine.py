"""Where and of what the figures are: machine, commit, versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from bench.processes import CHECKOUT, REFERENCE

PACKAGES = ("openenv-grpc", "grpcio", "protobuf", "pydantic", "aiohttp", "uvloop", "numpy")
REFERENCE_PACKAGES = ("openenv", "fastapi", "uvicorn", "websockets", "orjson", "uvloop")
ASKING = """
import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""


def commit() -> str:
    """Returns the checkout's commit, and whether it has changes; unknown outside of a clone."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip() or "unknown"


def processor() -> str:
    """Returns the processor's name as Linux has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def reference_versions() -> dict[str, str]:
    """Returns the versions of the reference and of what it serves with."""
    asked = subprocess.run(
        [REFERENCE, "-c", ASKING, *REFERENCE_PACKAGES], capture_output=True, text=True, check=True
    )
    versions: dict[str, str] = json.loads(asked.stdout)
    return versions


def describe() -> dict[str, object]:
    """Returns what a reader needs in order to judge figures of this machine."""
    return {
        "commit": commit(),
        "cores": os.cpu_count(),
        "processor": processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "reference_versions": reference_versions(),
    }
