"""Sessions that outlive their connections: found by key, kept for a window, one holder each."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from openenv_grpc.engine import verdicts
from openenv_grpc.engine.clock import Clock, Timer
from openenv_grpc.engine.registry import EngineSettings
from openenv_grpc.engine.session import OnLost, Session
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import Deliver, Operation, Reply
from openenv_grpc.sessions import (
    CancelEffect,
    Follower,
    Resume,
    SessionInfo,
    SessionPort,
    UnderWay,
    Watch,
)


class Hold:
    """One connection's hold on a session that may outlive it. Implements `SessionPort`."""

    def __init__(
        self,
        session: Session,
        on_lost: OnLost | None,
        forget: Callable[[SessionPort], None],
        watch: Watch | None = None,
    ) -> None:
        self.session = session
        self.forget = forget
        """Has its connection know it no more: there is nothing left to let go."""
        self.watch = watch
        self._on_lost = on_lost
        self._over: OpenEnvError | None = None  # why nothing goes through any more
        self._deliver: Deliver | None = None
        self._passing: Deliver = _ignore  # passes on to that

    @property
    def id(self) -> str:
        """See `SessionPort`."""
        return self.session.id

    @property
    def spec(self) -> EnvironmentSpec:
        """See `SessionPort`."""
        return self.session.spec

    @property
    def last_request_id(self) -> int:
        """See `SessionPort`."""
        return self.session.last_request_id

    def open(self, operation: Operation, deliver: Deliver) -> None:
        """Builds the environment, as the first operation."""
        self.session.open(operation, self._passing_to(deliver))

    def submit(self, operation: Operation, deliver: Deliver) -> None:
        """See `SessionPort`. Who holds it no more is refused."""
        if self._over is None:
            if deliver is not self._deliver:
                self._passing_to(deliver)
            self.session.submit(operation, self._passing)
        else:
            content = operation.codec.write_error(operation, self._over, self.spec)
            deliver(Reply(operation, content, self._over))

    def cancel(self, request_id: int) -> CancelEffect:
        """See `SessionPort`."""
        return CancelEffect.NOT_FOUND if self._over else self.session.cancel(request_id)

    def cancel_operation(self, operation: Operation) -> CancelEffect:
        """See `SessionPort`."""
        return CancelEffect.NOT_FOUND if self._over else self.session.cancel_operation(operation)

    def acknowledge(self, request_id: int) -> None:
        """See `SessionPort`."""
        if self._over is None:
            self.session.acknowledge(request_id)

    def under_way(self) -> list[UnderWay]:
        """See `SessionPort`."""
        return [] if self._over else self.session.under_way()

    def follow(self, follower: Follower) -> Callable[[], None]:
        """See `SessionPort`."""
        return self.session.follow(follower)

    def info(self) -> SessionInfo:
        """See `SessionPort`."""
        return self.session.info()

    def fence(self) -> None:
        """Ends the hold since another has begun, and tells so."""
        if self._over is None:
            self._over = verdicts.taken_over()
            self.forget(self)
            if self._on_lost is not None:
                self._on_lost(self, self._over)

    def let_go(self) -> None:
        """Ends the hold, without a word."""
        self._over = self._over or verdicts.let_go()

    def lost(self, _: SessionPort, error: OpenEnvError) -> None:
        """Passes on that the session has ended."""
        if self._over is None and self._on_lost is not None:
            self._on_lost(self, error)

    def _passing_to(self, deliver: Deliver) -> Deliver:
        """Returns what passes replies on. One does for many: doors have one for each session."""
        self._deliver, self._passing = deliver, partial(self._pass_on, deliver)
        return self._passing

    def _pass_on(self, deliver: Deliver, reply: Reply) -> None:
        if self._over is None:  # else the reply is in the record, for who asks again
            deliver(reply)


@dataclass(slots=True, eq=False)
class _Claim:
    """What can be claimed by a key."""

    session: Session
    digest: bytes
    window_s: float
    hold: Hold | None = None
    detached_at: float = 0.0
    timer: Timer | None = None
    """Runs while nobody holds the session, and from its end on."""
    size_bytes: int = 0
    """Of the record, once the session has ended."""

    @property
    def waits(self) -> bool:
        """Whether the session lives and nobody holds it."""
        return self.session.is_detached and not self.session.is_over

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Windows:
    """Sessions of one server that can be taken up again, and the records of those that ended."""

    def __init__(self, clock: Clock, settings: EngineSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._by_id: dict[str, _Claim] = {}
        self._by_digest: dict[bytes, _Claim] = {}
        self._records: OrderedDict[str, _Claim] = OrderedDict()
        self._record_bytes = 0

    def grant(self, session: Session, resume: Resume) -> None:
        """Lets a new session be taken up by its key, within a window."""
        window_s = min(resume.window_s, self._settings.max_resume_window_s)
        session.resume_window_s = window_s
        claim = _Claim(session, _digest(resume.key), window_s)
        self._by_id[session.id] = self._by_digest[claim.digest] = claim

    def known(self, key: str) -> Session | None:
        """Returns the session, or what is left of it, that was opened with a key."""
        claim = self._by_digest.get(_digest(key))  # which a timing tells nothing of
        return None if claim is None else claim.session

    def find(self, session_id: str, key: str) -> Session:
        """Returns a session, or what is left of it.

        Raises:
            SessionNotFoundError: there is none, or that is not its key.
        """
        claim = self._by_id.get(session_id)
        expected = b"" if claim is None else claim.digest
        if not hmac.compare_digest(expected, _digest(key)) or claim is None:
            raise verdicts.not_found(session_id, self._settings.crew)
        return claim.session

    def hold(self, hold: Hold, *, peer: str) -> None:
        """Takes a session up, and fences who held it."""
        session = hold.session
        claim = self._by_id[session.id]
        last, claim.hold = claim.hold, hold
        if last is not None:
            last.fence()
        if not session.is_over:
            claim.stop_timer()
            session.attach(hold.lost, peer=peer, watch=hold.watch)

    def detach(self, hold: Hold) -> None:
        """Lets a session wait to be taken up again; ends it once its window has passed."""
        hold.let_go()
        claim = self._by_id.get(hold.id)
        if claim is None or claim.hold is not hold:
            return
        claim.hold = None
        claim.session.detach()
        if not claim.session.is_over:
            claim.detached_at = self._clock.time()
            claim.timer = self._clock.call_later(claim.window_s, self._pass, claim)

    def evict(self, environment: str) -> bool:
        """Ends the session that has been detached for longest, if that is long enough.

        Tells whether there was one.
        """
        longest = self._longest_detached(environment)
        due = self._clock.time() - self._settings.detached_grace_s
        if longest is None or longest.detached_at > due:
            return False
        longest.session.end(verdicts.evicted(), cause="its slot was needed")
        return True

    def evictable_at(self, environment: str) -> float:
        """Tells when the next detached session may be ended for its slot; infinity for never."""
        longest = self._longest_detached(environment)
        if longest is None:
            return float("inf")
        return longest.detached_at + self._settings.detached_grace_s

    def _longest_detached(self, environment: str) -> _Claim | None:
        waiting = (
            claim
            for claim in self._by_id.values()
            if claim.waits and claim.session.spec.name == environment
        )
        return min(waiting, key=attrgetter("detached_at"), default=None)

    def revoke(self, session: Session) -> None:
        """Leaves the key of a session free that was never opened."""
        claim = self._by_id.get(session.id)
        if claim is not None:
            if claim.hold is not None:
                claim.hold.forget(claim.hold)
            self._forget(claim)

    def ended(self, session: Session) -> None:
        """Keeps what is left of a session that has ended, for its window."""
        claim = self._by_id.get(session.id)
        if claim is None:
            return
        if claim.hold is not None:
            claim.hold.forget(claim.hold)
        claim.stop_timer()
        claim.timer = self._clock.call_later(claim.window_s, self._forget, claim)
        claim.size_bytes = session.record_bytes
        self._records[session.id] = claim
        self._record_bytes += claim.size_bytes
        settings = self._settings
        while (
            len(self._records) > settings.max_kept_records
            or self._record_bytes > settings.max_kept_record_bytes
        ):
            self._forget(next(iter(self._records.values())))

    @property
    def kept(self) -> tuple[int, int]:
        """How many ended sessions are remembered, and how many bytes their answers have."""
        return len(self._records), self._record_bytes

    def stop(self) -> None:
        """Forgets everything."""
        for claim in list(self._by_id.values()):
            self._forget(claim)

    def _pass(self, claim: _Claim) -> None:
        self._forget(claim)
        error = verdicts.window_passed(claim.window_s)
        claim.session.end(error, cause="its window passed")

    def _forget(self, claim: _Claim) -> None:
        claim.stop_timer()
        del self._by_id[claim.session.id], self._by_digest[claim.digest]
        if self._records.pop(claim.session.id, None) is not None:
            self._record_bytes -= claim.size_bytes


def _ignore(_: Reply) -> None:
    return None


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=32).digest()
