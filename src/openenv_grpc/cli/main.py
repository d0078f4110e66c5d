"""The entry point, and how a failure is told: one line, and a status."""

from __future__ import annotations

import sys

from openenv_grpc.collecting import collection_put_off
from openenv_grpc.errors import ConfigurationError, OpenEnvError

FAILED = 1
MISUSED = 2
INTERRUPTED = 130


def main() -> None:
    """Runs the command."""
    try:
        with collection_put_off():
            # Here, where no garbage is collected: what it imports is much.
            from openenv_grpc.cli.tree import command
        command()
    except ConfigurationError as error:
        _fail(str(error), MISUSED)
    except OpenEnvError as error:
        _fail(str(error), FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _fail(message: str, status: int) -> None:
    line = " ".join(message.split())
    print(f"openenv-grpc: {line}", file=sys.stderr)
    sys.exit(status)
