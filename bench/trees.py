"""Revisions of this project as folders to import from."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import CHECKOUT, BenchError


def commit_of(revision: str) -> str:
    """Returns a revision's abbreviated commit.

    Raises:
        BenchError: there is no such revision.
    """
    found = subprocess.run(
        ["git", "rev-parse", "--short", "--verify", "--quiet", f"{revision}^{{commit}}"],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode != 0:
        raise BenchError(f"{revision!r} is no revision of this repository; see `git log`")
    return found.stdout.strip()


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """Lays a revision out in a temporary folder, its stubs generated, while the block is entered.

    It is an export and no worktree of git's, of which a killed run would leave an entry behind.

    Raises:
        BenchError: there is no such revision, or its stubs cannot be generated.
    """
    commit = commit_of(revision)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=CHECKOUT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory(prefix="bench-tree-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(folder, filter="data")
        generated = subprocess.run(
            [sys.executable, "proto/generate.py"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if generated.returncode != 0:
            raise BenchError(
                f"the stubs of {commit} cannot be generated: {generated.stderr[-2000:]}"
            )
        yield Path(folder)
