"""Options that were left out, for the server to choose."""

from __future__ import annotations

from typing import cast

from openenv_grpc.options import ServerOptions


def given(options: ServerOptions, **others: float | None) -> ServerOptions:
    """Adds to what the server takes those of the others that were given."""
    said = {name: value for name, value in others.items() if value is not None}
    return cast("ServerOptions", {**options, **said})
