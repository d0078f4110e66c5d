"""Which environment a request means: the one its path names, else the first."""

from __future__ import annotations

from aiohttp import web

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import EnvironmentNotFoundError
from openenv_grpc.sessions import SessionHost

PREFIX = "/{environment}"
"""In front of a route's path, for servers of several environments."""


def requested(host: SessionHost, request: web.Request) -> EnvironmentSpec:
    """Finds the environment of a request. Case does not matter, but an exact name goes first.

    Raises:
        EnvironmentNotFoundError: there is none of that name.

    """
    name = request.match_info.get("environment")
    if name is None:
        return host.spec()
    if name in host.environments:
        return host.environments[name]
    for known, spec in host.environments.items():
        if known.casefold() == name.casefold():
            return spec
    raise EnvironmentNotFoundError(
        f"unknown environment '{name}'",  # the reference's words
        metadata={"environments": ", ".join(host.environments)},
    )
