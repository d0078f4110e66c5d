"""The servers and loads of one tree, started when they are first needed and kept for the rows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.jobs import Job, Measured
from bench.processes import CHECKOUT, BenchError, Load, Server, loading, serving
from bench.rows import Row
from bench.sides import Door, ServerSpec, Side


class Fleet:
    """Measures sides of rows. Leaving the block ends all processes."""

    def __init__(self, tree: Path = CHECKOUT) -> None:
        """Makes one whose servers and clients of ours are those of a tree."""
        self._tree = tree
        self._servers: dict[ServerSpec, tuple[Server, ExitStack]] = {}
        self._loads: dict[str, tuple[Load, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Loads first: a server that stops waits for the episodes of its clients.
        with ExitStack() as stack:
            for _, owner in (*self._servers.values(), *self._loads.values()):
                stack.push(owner)

    def keep(self, rows: Iterable[Row]) -> None:
        """Ends the servers that no row of these needs."""
        needed = {side.server for row in rows for side in row.sides}
        for spec in [spec for spec in self._servers if spec not in needed]:
            self._servers.pop(spec)[1].close()

    def prepare(self, row: Row) -> None:
        """Starts what a row needs, so that no start lies between the sides of its first round.

        What does not start is left to `measure`, which says so.
        """
        if row.fresh or row.mode == "start":
            return
        for side in row.sides:
            with suppress(BenchError):
                if side.door is not Door.NONE:
                    self.server(side)
                self._load(side.client)

    def measure(self, row: Row, side: Side, seconds: float) -> Measured:
        """Measures one side of a row once.

        Raises:
            BenchError: a server did not start, or the load failed.
        """
        if row.mode == "start":
            with serving(side.server, self._tree) as server:
                return {"start_s": server.start_s}
        if side.door is Door.NONE:
            return self._run(row, side, None, seconds)
        if not row.fresh:
            return self._run(row, side, self.server(side), seconds)
        # A server that had sessions before reuses their memory.
        with serving(side.server, self._tree) as server:
            return self._run(row, side, server, seconds)

    def _run(self, row: Row, side: Side, server: Server | None, seconds: float) -> Measured:
        job = Job(
            mode=side.mode or row.mode,
            url=server.url(side.door) if server else "",
            server=server.pid if server else 0,
            sessions=row.sessions,
            seconds=seconds,
            action=row.action,
            size_bytes=row.size_bytes,
            pause_s=row.pause_s,
        )
        try:
            return self._load(side.client).measure(job)
        except BenchError:
            # Its loop may still hold what the job left behind, and the server its sessions.
            if side.client in self._loads:
                self._loads.pop(side.client)[1].close()
            if side.server in self._servers:
                self._servers.pop(side.server)[1].close()
            raise

    def server(self, side: Side) -> Server:
        """Returns a side's server, which is started if it is not up.

        Raises:
            BenchError: it did not start.
        """
        if side.server not in self._servers:
            with ExitStack() as stack:
                server = stack.enter_context(serving(side.server, self._tree))
                self._servers[side.server] = server, stack.pop_all()
        return self._servers[side.server][0]

    def _load(self, client: str) -> Load:
        if client not in self._loads:
            with ExitStack() as stack:
                load = stack.enter_context(loading(client, self._tree))
                self._loads[client] = load, stack.pop_all()
        return self._loads[client][0]
