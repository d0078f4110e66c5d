"""Serving by several processes."""

from __future__ import annotations

import asyncio

from openenv_grpc.workers.setup import Served
from openenv_grpc.workers.supervisor import OnReady, Supervisor


def serve_workers(served: Served, *, size: int, on_ready: OnReady) -> None:
    """Serves by `size` processes until SIGTERM, which drains first, or SIGINT.

    A second signal does not wait for episodes, and the one after it for nothing. What ends this
    process, ends the workers. `on_ready` is called once every worker listens.

    Raises:
        ConfigurationError: an environment, an option or a port is not to be had.
        InternalError: a worker ends again and again.
    """

    async def run() -> None:
        await Supervisor(served, size, on_ready).run()

    asyncio.run(run())
