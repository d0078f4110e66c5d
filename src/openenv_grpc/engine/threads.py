"""The threads of one server: a thread a session, or one that several share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from openenv_grpc.engine.inline import inline_worker
from openenv_grpc.engine.kept_threads import KeptThreads
from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.engine.relay import Relay
from openenv_grpc.engine.worker import ThreadWorker, Worker

JOIN_S = 1.0
"""How long the end of a thread that has nothing left to do is waited for, at most."""


class SharedThread:
    """The place of a thread that several sessions share."""

    def __init__(self) -> None:
        self.worker: ThreadWorker | None = None


class Threads:
    """Hands out workers and takes them back."""

    def __init__(self, relay: Relay, *, on_stuck: Callable[[int], None]) -> None:
        """`on_stuck` gets the number of stuck calls, whenever that has changed."""
        self._relay = relay
        self._kept: defaultdict[str, KeptThreads] = defaultdict(KeptThreads)  # by environment
        self._single: dict[str, SharedThread] = {}  # by environment; kept once it is started
        self._users: Counter[Worker] = Counter()
        self._ending: list[ThreadWorker] = []
        self._stuck: Counter[Worker] = Counter()
        self._on_stuck = on_stuck

    @property
    def stuck(self) -> int:
        """Calls that run on although their session was given up."""
        return self._stuck.total()

    def take(
        self, registered: RegisteredEnvironment, *, name: str, shared: SharedThread | None
    ) -> Worker:
        """Returns a worker for a session; `shared` is what its connection's sessions share."""
        environment = registered.spec.name
        if registered.single_thread:
            place = self._single.setdefault(environment, SharedThread())
            return self._at(place, environment, name=f"openenv {environment}", kept=True)
        if registered.spec.isolation == "inline":
            return inline_worker(environment)
        if registered.spec.isolation == "shared" and shared is not None:
            return self._at(shared, environment, name=name, kept=False)
        return self._worker(environment, name=name)

    def _worker(self, environment: str, *, name: str) -> ThreadWorker:
        return ThreadWorker(self._relay, self._kept[environment], name=name)

    def _at(self, place: SharedThread, environment: str, *, name: str, kept: bool) -> Worker:
        if place.worker is None:
            place.worker = self._worker(environment, name=name)
            self._users[place.worker] = 1 if kept else 0
        self._users[place.worker] += 1
        return place.worker

    def free(self, worker: Worker, *, shared: SharedThread | None) -> None:
        """Takes a worker back; its thread ends once it has done what it was given."""
        self._users[worker] -= 1
        if self._users[worker] > 0:
            return
        del self._users[worker]
        if shared is not None and shared.worker is worker:
            shared.worker = None
        worker.stop()
        if isinstance(worker, ThreadWorker):
            self._ending = [ending for ending in self._ending if not ending.ended]
            self._ending.append(worker)

    def give_up(
        self, worker: Worker, returned: Callable[[], None], *, shared: SharedThread | None
    ) -> None:
        """Takes back a worker whose call does not return; tells when it does."""

        def came_back(_: None, __: None) -> None:
            self._stuck[worker] -= 1
            self._on_stuck(self.stuck)
            returned()

        self._stuck[worker] += 1
        self._on_stuck(self.stuck)
        worker.run(_nothing, None, came_back)
        for place in (shared, *self._single.values()):
            if place is not None and place.worker is worker:
                place.worker = None  # others get a thread that works
                if place is not shared:
                    self._users[worker] -= 1
        self.free(worker, shared=shared)

    def stop(self) -> None:
        """Ends the threads that outlive sessions, and waits a moment for all that end."""
        for place in self._single.values():
            if place.worker is not None:
                self.free(place.worker, shared=place)
        for worker in self._ending:
            if not self._stuck[worker]:
                worker.join(JOIN_S)
        for threads in self._kept.values():
            threads.stop()


def _nothing(_: None) -> None:
    return None
