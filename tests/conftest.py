"""What tests share: the Python that has the reference installed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent

# A shell starts its background jobs with SIGINT ignored, which the servers of tests would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def reference_python() -> Path:
    """Returns the interpreter in whose environment the reference and we are both installed."""
    default = CHECKOUT / ".venv-reference" / "bin" / "python"
    python = Path(os.environ.get("OPENENV_REFERENCE_PYTHON", default))
    if python.exists():
        return python
    missing = f"{python} is missing: run `make .stamps/reference`"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
