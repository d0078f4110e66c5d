"""What is asked of all sessions of a host, and the wait for more."""

from __future__ import annotations

from openenv_grpc.busy_polling import BusyPolling


class Attention:
    """Counts the operations without an answer. Where there are none, the event loop waits."""

    def __init__(self, polling: BusyPolling) -> None:
        self._polling = polling
        self._open = 0

    def asked(self) -> None:
        """Notes an operation."""
        if not self._open:
            self._polling.end()
        self._open += 1

    def answered(self) -> None:
        """Notes its answer."""
        self._open -= 1
        if not self._open:
            self._polling.begin()
