"""`sessions`: which sessions a server has, and the end of one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from openenv_grpc.cli.credentials import CredentialOptions, Credentials
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.output import show, table

if TYPE_CHECKING:
    from openenv_grpc.client.administration import LiveSession

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
    """List the sessions of a server, oldest first, or end one."""
    given = by.credentials()
    if close is not None:
        asyncio.run(_close(url, close, timeout, given))
        show({"closed": close}, as_json=as_json)
        return
    found = asyncio.run(_list(url, timeout, given))
    if as_json:
        for session in found:
            show(asdict(session), as_json=True)
    elif found:
        table(COLUMNS, [_row(session) for session in found])
    else:
        typer.echo("no sessions")


async def _list(url: str, timeout_s: float, given: Credentials) -> list[LiveSession]:
    # Here, so that `--help` is quick.
    from openenv_grpc.client.administration import administer

    async with administer(url, timeout_s=timeout_s, **given) as server:
        return await server.list_sessions()


async def _close(url: str, session_id: str, timeout_s: float, given: Credentials) -> None:
    from openenv_grpc.client.administration import administer

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
