"""What sessions of one server have saved: kept under ids, for other sessions to go on from."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from openenv_grpc.crew import new_id
from openenv_grpc.engine.performing import Outcome
from openenv_grpc.engine.registry import EngineSettings
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    OutcomeTooLargeError,
    SnapshotNotFoundError,
)
from openenv_grpc.metrics import Metrics
from openenv_grpc.operations import Operation, Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An environment as it was. Who has one can open it, whether or not it is kept any longer."""

    environment: str
    content: bytes


class Snapshots:
    """Keeps snapshots up to a number and a size, those that were used last."""

    def __init__(self, settings: EngineSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._kept: OrderedDict[str, Snapshot] = OrderedDict()

    def answer(self, operation: Operation, outcome: Outcome, spec: EnvironmentSpec) -> Outcome:
        """Keeps what an operation saved, and returns what its client is told."""
        content, error = outcome
        if error is None:
            try:
                return self._keep(operation, content, spec), None
            except OpenEnvError as refused:
                error = refused
        return operation.codec.write_error(operation, error, spec), error

    def find(self, snapshot_id: str, environment: str) -> Snapshot:
        """Returns a snapshot of an environment; of any for an empty name.

        Raises:
            SnapshotNotFoundError: it is not kept, or never was.
            InvalidRequestError: it is of another environment.
        """
        snapshot = self._kept.get(snapshot_id)
        if snapshot is None:
            raise SnapshotNotFoundError(
                f"there is no snapshot {snapshot_id!r}; it may have made room for others, of which "
                f"{self._settings.max_snapshots} are kept (--max-snapshots, --max-snapshot-bytes). "
                "Take another",
                session_lost=True,
            )
        if environment not in ("", snapshot.environment):
            raise InvalidRequestError(
                f"the snapshot is of {snapshot.environment!r}, not of {environment!r}",
                session_lost=True,
            )
        self._kept.move_to_end(snapshot_id)
        return snapshot

    def _keep(self, operation: Operation, content: bytes, spec: EnvironmentSpec) -> bytes:
        size, limit = len(content), self._settings.max_snapshot_bytes
        if self._settings.max_snapshots <= 0:
            raise NotSupportedError("this server keeps no snapshots; serve with --max-snapshots")
        if size > limit:
            raise OutcomeTooLargeError(
                f"the snapshot has {size} bytes, and the server keeps {limit} in all; serve with a "
                "larger --max-snapshot-bytes",
                metadata={"size_bytes": str(size)},
            )
        snapshot_id = new_id(self._settings.crew)  # nobody can guess it
        self._kept[snapshot_id] = Snapshot(environment=spec.name, content=content)
        self._metrics.snapshots += 1
        self._metrics.snapshot_bytes += size
        self._make_room()
        return operation.codec.write(
            operation, Saved(snapshot_id=snapshot_id, size_bytes=size), spec
        )

    def _make_room(self) -> None:
        counted, settings = self._metrics, self._settings
        while (
            counted.snapshots > settings.max_snapshots
            or counted.snapshot_bytes > settings.max_snapshot_bytes
        ):
            _, dropped = self._kept.popitem(last=False)
            counted.snapshots -= 1
            counted.snapshot_bytes -= len(dropped.content)
            counted.snapshots_dropped += 1
