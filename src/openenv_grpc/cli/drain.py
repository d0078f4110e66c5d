"""`drain`: has a server refuse what is new, and stop once what is under way is over."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from openenv_grpc.cli.credentials import CredentialOptions
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.output import show
from openenv_grpc.cli.sessions import GrpcUrl
from openenv_grpc.errors import UnavailableError

if TYPE_CHECKING:
    from openenv_grpc.client.credentials import Credentials


@with_groups
def drain(
    *,
    url: GrpcUrl,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long episodes may go on; 0 stops the server at once.  [default: the "
            "server's --drain-timeout]",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait for the server.")
    ] = 10.0,
    by: CredentialOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Have a server refuse new sessions and episodes, and stop when those under way are over.

    Does not wait for that. Of a server with several worker processes it drains all.
    """
    given = by.credentials()
    count = asyncio.run(_drain(url, limit, timeout, given))
    show({"draining": True, "sessions": count}, as_json=as_json)


async def _drain(url: str, limit_s: float | None, timeout_s: float, given: Credentials) -> int:
    # Here, so that `--help` is quick.
    from openenv_grpc.client.administration import administer, worker_urls

    async def count_sessions(worker_url: str) -> int:
        with suppress(UnavailableError):  # it is being started again, and has none
            async with administer(worker_url, timeout_s=timeout_s, **given) as server:
                return len(await server.list_sessions())
        return 0

    urls = await worker_urls(url, timeout_s=timeout_s, **given)
    counts = await asyncio.gather(*map(count_sessions, urls)) if len(urls) > 1 else ()
    async with administer(url, timeout_s=timeout_s, **given) as server:
        count = await server.drain(limit_s)
    return sum(counts) or count
