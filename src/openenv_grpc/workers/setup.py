"""What is served, and what a worker process is told when it is started."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from openenv_grpc.crew import Crew
from openenv_grpc.options import ServerOptions
from openenv_grpc.targets import Overrides


class Prepare(Protocol):
    """Prepares a process for a worker."""

    def __call__(self, *, worker: int) -> None:
        """Does so for the worker of that number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Environments, as a command line names them, and how they are served."""

    targets: Sequence[str]
    overrides: Overrides
    options: ServerOptions
    prepare: Prepare
    """Called in each process before anything else; found there by module and name."""

    def written(self, crew: Crew) -> bytes:
        """Returns this for a worker, with all that lets its process find the same modules.

        It is handed from parent to child alone, and has tokens in it.
        """
        return pickle.dumps(sys.path) + pickle.dumps(sys.argv) + pickle.dumps((self, crew))
