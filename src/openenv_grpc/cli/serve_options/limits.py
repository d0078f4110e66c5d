"""What bounds the memory, the processes and the patience of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.busy_polling import MAX_LIMIT_S
from openenv_grpc.cli.serve_options.given import given
from openenv_grpc.cli.sizes import parse_size
from openenv_grpc.options import ServerOptions


def _size(help_text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        parser=parse_size, metavar="SIZE", help=help_text
    )
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Sizes, numbers and rates."""

    max_message_size: Annotated[
        int | None,
        _size("The largest message, binary frame or HTTP body that is taken.  [default: 100M]"),
    ] = None
    max_json_size: Annotated[
        int | None,
        _size("The largest frame of JSON that is taken on a WebSocket.  [default: 16M]"),
    ] = None
    max_unsent: Annotated[
        int | None,
        _size("Answers past which no more is read of a stream.  [default: 32M]"),
    ] = None
    max_shared_memory: Annotated[
        int | None,
        _size(
            "Memory that each connection from this machine may share, for large messages.  "
            "[default: 256M]"
        ),
    ] = None
    no_shared_memory: Annotated[
        bool, typer.Option("--no-shared-memory", help="Share no memory with clients.")
    ] = False
    max_operations: Annotated[
        int | None,
        typer.Option(min=1, help="Operations of one session in flight.  [default: 16]"),
    ] = None
    resume_window: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="The longest time for which a session outlives its connection; 0 for not at all.  "
            "[default: 600]",
        ),
    ] = None
    max_records: Annotated[
        int | None,
        typer.Option(
            min=0, help="Answers that a session keeps for those who ask again.  [default: 64]"
        ),
    ] = None
    max_record_bytes: Annotated[
        int | None, _size("What they may take in each session.  [default: 8M]")
    ] = None
    max_kept_records: Annotated[
        int | None,
        typer.Option(
            min=0, help="Ended sessions whose answers are kept for their windows.  [default: 1000]"
        ),
    ] = None
    max_kept_record_bytes: Annotated[
        int | None, _size("What those may take, all together.  [default: 64M]")
    ] = None
    process_pool: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Processes that wait for a session, of each environment in processes.  "
            "[default: 2]",
        ),
    ] = None
    stuck_grace: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a call may run on after its time before its session is given up.  "
            "[default: 10]",
        ),
    ] = None
    max_stuck: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Calls that may run on in spite of that, before health says so.  [default: 8]",
        ),
    ] = None
    opens_per_minute: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SESSIONS",
            help="Sessions that each address beyond this machine may open; 0 for any number.  "
            "[default: 6000]",
        ),
    ] = None

    busy_poll_us: Annotated[
        float | None,
        typer.Option(
            "--busy-poll-us",
            min=0,
            max=MAX_LIMIT_S * 1e6,
            metavar="MICROSECONDS",
            help="How long the server looks for the next request before it sleeps; 0 for not at "
            "all.  [default: 500]",
        ),
    ] = None

    def server_options(self) -> ServerOptions:
        """Returns what the server takes."""
        options = ServerOptions()
        if self.opens_per_minute is not None:
            options["opens_per_minute"] = self.opens_per_minute or None
        if self.busy_poll_us is not None:
            options["busy_poll_s"] = self.busy_poll_us / 1e6
        return given(
            options,
            max_message_bytes=self.max_message_size,
            max_json_bytes=self.max_json_size,
            max_unsent_bytes=self.max_unsent,
            max_shared_bytes=0 if self.no_shared_memory else self.max_shared_memory,
            max_operations_per_session=self.max_operations,
            max_resume_window_s=self.resume_window,
            max_records=self.max_records,
            max_record_bytes=self.max_record_bytes,
            max_kept_records=self.max_kept_records,
            max_kept_record_bytes=self.max_kept_record_bytes,
            process_pool_size=self.process_pool,
            stuck_grace_s=self.stuck_grace,
            max_stuck=self.max_stuck,
        )
