"""`sessions`: which sessions a server has, and the end of one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from openenv_grpc.cli.credentials import CredentialOptions
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.output import show, table
from openenv_grpc.crew import worker_of

if TYPE_CHECKING:
    from openenv_grpc.client.administration import LiveSession
    from openenv_grpc.client.credentials import Credentials

GrpcUrl = Annotated[
    str, typer.Argument(metavar="URL", help="grpc://HOST:PORT, grpcs://HOST:PORT or unix:PATH.")
]

COLUMNS = ("SESSION", "ENVIRONMENT", "STATE", "EPISODE", "AGE", "IDLE", "STEPS", "PEER")


@with_groups
def sessions(
    *,
    url: GrpcUrl,
    close: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="End this session; its client is told.", show_default=False
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait for the server.")
    ] = 10.0,
    by: CredentialOptions,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a line, for scripts.")
    ] = False,
) -> None:
    """List the sessions of a server, oldest first, or end one; of all its worker processes."""
    given = by.credentials()
    if close is not None:
        asyncio.run(_close(url, close, timeout, given))
        show({"closed": close}, as_json=as_json)
        return
    listed = asyncio.run(_list(url, timeout, given))
    several = len(listed) > 1
    found = [(worker, session) for worker, each in enumerate(listed) for session in each]
    found.sort(key=lambda one: -one[1].age_s)
    if as_json:
        for worker, session in found:
            show({**({"worker": worker} if several else {}), **asdict(session)}, as_json=True)
    elif found:
        columns = ("WORKER", *COLUMNS) if several else COLUMNS
        table(columns, [(*((str(one[0]),) if several else ()), *_row(one[1])) for one in found])
    else:
        typer.echo("no sessions")


async def _list(url: str, timeout_s: float, given: Credentials) -> list[list[LiveSession]]:
    """Lists the sessions of each worker. One that is not there has none, and the error is told."""
    # Here, so that `--help` is quick.
    from openenv_grpc.client.administration import administer, worker_urls

    async def ask(worker_url: str) -> list[LiveSession]:
        async with administer(worker_url, timeout_s=timeout_s, **given) as server:
            return await server.list_sessions()

    urls = await worker_urls(url, timeout_s=timeout_s, **given)
    if len(urls) == 1:
        return [await ask(url)]
    found = await asyncio.gather(*map(ask, urls), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            typer.echo(f"openenv-grpc: {each}", err=True)
    return [[] if isinstance(each, BaseException) else each for each in found]


async def _close(url: str, session_id: str, timeout_s: float, given: Credentials) -> None:
    from openenv_grpc.client.administration import administer, worker_urls

    urls = await worker_urls(url, timeout_s=timeout_s, **given)
    worker = worker_of(session_id)
    if worker is not None and worker < len(urls):
        url = urls[worker]
    async with administer(url, timeout_s=timeout_s, **given) as server:
        await server.close_session(session_id)


def _row(session: LiveSession) -> tuple[str, ...]:
    return (
        session.session_id,
        session.environment,
        session.state,
        "under way" if session.under_way else "-",
        _duration(session.age_s),
        "-" if session.idle_s is None else _duration(session.idle_s),
        str(session.step_count),
        session.peer or "-",
    )


def _duration(seconds: float) -> str:
    """Writes a length of time by its two largest units."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{left}s" if minutes else f"{seconds:.1f}s"
