"""Servers for the tests of commands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.served_process import ServedProcess, start_server

ServeProcess = Callable[..., AbstractContextManager[ServedProcess]]


@pytest.fixture
def serve_process(tmp_path: Path) -> ServeProcess:
    """See `start_server`."""
    return functools.partial(start_server, tmp_path)
