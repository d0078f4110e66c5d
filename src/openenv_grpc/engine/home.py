"""Who keeps sessions, as one of them sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openenv_grpc.engine.attention import Attention
from openenv_grpc.engine.clock import Clock
from openenv_grpc.engine.housing import House
from openenv_grpc.engine.registry import EngineSettings
from openenv_grpc.engine.snapshots import Snapshots
from openenv_grpc.engine.traced import OperationSpans
from openenv_grpc.engine.worker import Worker
from openenv_grpc.metrics import Metrics

if TYPE_CHECKING:
    from openenv_grpc.engine.session import Session


class Home(Protocol):
    """What a session needs of who keeps it."""

    @property
    def settings(self) -> EngineSettings:
        """How sessions are run."""
        ...

    @property
    def clock(self) -> Clock:
        """Tells the time and wakes up."""
        ...

    @property
    def attention(self) -> Attention:
        """Knows whether anything is asked of any session."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What is counted."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """What sessions have saved."""
        ...

    @property
    def draining(self) -> bool:
        """Whether no episode may be started."""
        ...

    def house(self, session: Session) -> House:
        """Returns where the session's environment will live."""
        ...

    def spans_of(self, session: Session) -> OperationSpans | None:
        """Returns what makes spans of its operations; `None` if nothing is traced."""
        ...

    def take_worker(self, session: Session) -> Worker:
        """Returns where the session's blocking calls run."""
        ...

    def free_worker(self, session: Session, worker: Worker) -> None:
        """Takes a worker back."""
        ...

    def watch_idle(self, session: Session) -> None:
        """Ends a session once it idles for too long."""
        ...

    def gone(self, session: Session, *, stuck_on: Worker | None) -> None:
        """Notes that a session has ended, though a call of it may still run on a worker."""
        ...
