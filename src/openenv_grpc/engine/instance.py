"""One environment that stands: what each kind of operation does to it."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from openenv_grpc.engine import adapt, saving
from openenv_grpc.engine.adapt import Method, Shape
from openenv_grpc.engine.agent_side import AGENT_KINDS, AgentSide, Prepared
from openenv_grpc.engine.books import Books
from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.errors import (
    EpisodeNotStartedError,
    EpisodeOverError,
    InvalidRequestError,
    NotSupportedError,
)
from openenv_grpc.operations import (
    Evaluated,
    Kind,
    Observed,
    Operation,
    StateRead,
    TaskQuery,
)
from openenv_grpc.tools.asking import Unreachable, asking
from openenv_grpc.tools.changes import noted
from openenv_grpc.tools.notices import heard
from openenv_grpc.types import JsonValue

logger = logging.getLogger(__name__)


class Instance:
    """One environment and its books. Everything here runs where the environment runs."""

    def __init__(
        self,
        environment: Any,
        registered: RegisteredEnvironment,
        books: Books,
    ) -> None:
        self.environment = environment
        self.shape: Shape = adapt.shape_of_instance(environment)
        self.books = books
        self.spec = registered.spec
        self._has_rubric = adapt.has_rubric(environment)
        self._own_rng = adapt.keeps_rng(environment, self.shape)
        adapt.bind_mode(environment, self.spec.mode)
        if self.shape.ours:
            adapt.bind_books(environment, self.books.episode)
        self._agent_side = AgentSide(environment, registered, books, weakref.proxy(self))
        self.not_blocking = frozenset(
            kind
            for kind in Kind
            if kind is Kind.TASKS or self.awaits_kind(kind) or self.is_at_hand(kind)
        )
        """Kinds of which no operation, or not every one, blocks; see `awaits`, `is_at_hand`."""
        self._requires_reset = self.shape.requires_reset
        self._find_step = attrgetter(self.shape.step.name)  # which may be the instance's own

    def awaits(self, operation: Operation) -> bool:
        """Tells whether an operation is awaited on the event loop."""
        if operation.kind is Kind.TASKS:
            method = self.shape.tasks.get(operation.payload.method)
            return method is not None and method.asynchronous
        return self.awaits_kind(operation.kind)

    def awaits_kind(self, kind: Kind) -> bool:
        """Tells whether operations of a kind, other than `TASKS`, are awaited."""
        match kind:
            case Kind.STEP:
                return self.shape.step.asynchronous
            case Kind.RESET:
                return self.shape.reset.asynchronous
            case kind if kind in AGENT_KINDS:
                return self._agent_side.awaits(kind)
            case Kind.EVALUATE:
                evaluate = self.shape.evaluate
                return evaluate is not None and evaluate.asynchronous
            case Kind.SNAPSHOT:
                return self.shape.snapshot is not None and self.shape.snapshot.asynchronous
            case Kind.RESTORE:
                return self.shape.restore is not None and self.shape.restore.asynchronous
            case _:
                return False

    def is_at_hand(self, kind: Kind) -> bool:
        """Tells whether operations of a kind neither block nor await anything."""
        return self.shape.on_loop and (kind in saving.AT_ONCE or self._agent_side.is_at_hand(kind))

    def prepared(self, operation: Operation) -> Prepared:
        """Reads an operation, and returns how it is done."""
        prepare = _PREPARE.get(operation.kind)
        prepared = (
            self._agent_side.prepared(operation) if prepare is None else prepare(self, operation)
        )
        if operation.listener is None and operation.changes is None:
            return prepared
        call, complete = prepared
        return self._surrounded(operation, call), complete

    def _surrounded(self, operation: Operation, call: Callable[[], Any]) -> Callable[[], Any]:
        """Has a call find who listens to it, whom it may ask and who follows."""
        if operation.changes is not None:
            call = partial(noted, operation.changes, call)
        if operation.listener is not None:
            call = partial(heard, operation.tell, call)
        if operation.client is not None:
            inline = self.spec.isolation == "inline"
            call = partial(asking, Unreachable() if inline else operation.client, call)
        return call

    # Episodes

    def _prepare_step(self, operation: Operation) -> Prepared:
        read = operation.codec.read_step(operation, self.spec)
        if self._requires_reset:
            self.check_episode()
        if read.keywords or operation.timeout_s is not None:
            keywords = self._accepted(self.shape.step, read.keywords or {}, strict=read.strict)
            return self._timed_step(operation, read.action, keywords), self.stepped
        return partial(self._find_step(self.environment), read.action), self.stepped

    @property
    def awaits_step(self) -> bool:
        """See `Episodes`."""
        return self.shape.step.asynchronous

    def step_call(self, operation: Operation, action: Any) -> Callable[[], Any]:
        """See `Episodes`."""
        return self._timed_step(operation, action, {})

    def _timed_step(
        self, operation: Operation, action: Any, keywords: dict[str, JsonValue]
    ) -> Callable[[], Any]:
        if operation.timeout_s is not None and self.shape.step.accepts("timeout_s"):
            keywords.setdefault("timeout_s", operation.timeout_s)
        return partial(self._find_step(self.environment), action, **keywords)

    def stepped(self, observation: Any) -> Observed:
        """See `Episodes`."""
        observed = self._observe(observation, steps=1)
        self.books.settle()
        return observed

    def observe_step(self, observation: Any) -> Observed:
        """See `Episodes`."""
        return self._observe(observation, steps=1)

    def _prepare_reset(self, operation: Operation) -> Prepared:
        read = operation.codec.read_reset(operation, self.spec)
        method = self.shape.reset
        keywords = self._accepted(method, read.keywords, strict=read.strict)
        episode_id, seed = read.keywords.get("episode_id"), read.keywords.get("seed")
        return partial(self._reset, keywords, episode_id, seed), self._was_reset

    def _reset(self, keywords: dict[str, JsonValue], episode_id: object, seed: object) -> Any:
        self.books.start(episode_id if isinstance(episode_id, str) else None, seed)
        if not self._own_rng:
            adapt.renew_rng(self.environment)
        return self.shape.reset.call(self.environment, **keywords)

    def _was_reset(self, observation: Any) -> Observed:
        self.books.started = True
        observed = self._observe(observation)
        observed.episode_id = self._episode_id()
        return observed

    def _episode_id(self) -> str | None:
        """Returns the episode's name, by its author's word where he keeps the state."""
        if self.shape.own_state:
            try:
                return self._read_state().episode_id
            except Exception:  # the reset went well all the same
                logger.debug("state failed after a reset", exc_info=True)
        return self.books.episode.episode_id

    def _observe(self, observation: Any, *, steps: int = 0) -> Observed:
        """Books what came of a reset, or of a step, which the rubric's parts have judged."""
        cls: type = type(observation)
        has_reward, has_done, has_truncated = adapt.observed_fields(cls)
        reward = observation.reward if has_reward else None
        done = bool(observation.done) if has_done else False
        truncated = observation.truncated if has_truncated else False
        self.books.saw(done=done, truncated=truncated, steps=steps)
        parts = adapt.reward_parts(self.environment) if steps and self._has_rubric else {}
        return Observed(observation, reward, done, truncated, parts)

    def check_episode(self) -> None:
        """See `Episodes`."""
        if not self._requires_reset:
            return
        if not self.books.started:
            raise EpisodeNotStartedError("no episode has been started; reset first")
        if self.books.done:
            raise EpisodeOverError("the episode is over; reset to start another")

    def _accepted(
        self, method: Method, keywords: Mapping[str, JsonValue], *, strict: bool
    ) -> dict[str, JsonValue]:
        """Returns the keywords that a method takes."""
        accepted = {name: keywords[name] for name in keywords if method.accepts(name)}
        unknown = keywords.keys() - accepted.keys() - adapt.HANDED_BY_ENGINE
        if strict and unknown:
            taken = ", ".join(sorted(method.accepted)) or "none"
            raise InvalidRequestError(
                f"{self.spec.name} does not know the option {min(unknown)!r} of "
                f"{method.name.removesuffix('_async')}; it takes: {taken}"
            )
        return accepted

    # State and verdict

    def _prepare_state(self, operation: Operation) -> Prepared:
        return self._read_state, _unchanged

    def _read_state(self) -> StateRead:
        episode = self.books.episode
        return adapt.read_state(
            self.environment, self.shape, episode.episode_id, episode.step_count
        )

    def _prepare_evaluate(self, operation: Operation) -> Prepared:
        if self.shape.evaluate is None:
            return _nothing, self._evaluated
        return partial(self.shape.evaluate.call, self.environment), self._evaluated

    def _evaluated(self, verdict: Any) -> Evaluated:
        books = self.books
        match verdict:
            case Evaluated():
                return verdict
            case Mapping():
                parts = {str(name): float(part) for name, part in verdict.items()}
                reward: float | None = sum(parts.values())
            case None:
                parts, reward = dict(books.earned_parts), books.earned
            case _:
                parts, reward = {}, verdict
        return Evaluated(reward=reward, rewards=parts, done=books.done, truncated=books.truncated)

    # Copies

    def _prepare_snapshot(self, operation: Operation) -> Prepared:
        call = saving.reader(self.environment, self.shape)
        return call, partial(saving.whole, self.environment, self.books, own_rng=self._own_rng)

    def _prepare_restore(self, operation: Operation) -> Prepared:
        content = saving.begin(
            self.environment, self.books, operation.payload, own_rng=self._own_rng
        )
        return saving.writer(self.environment, self.shape, content), _unchanged

    # What is asked of an instance that lives for one request

    def _prepare_tasks(self, operation: Operation) -> Prepared:
        query: TaskQuery = operation.payload
        method = self.shape.tasks.get(query.method)
        if method is None:
            raise no_such_method(query.method)
        return partial(method.call, self.environment, *query.arguments), _unchanged

    def _prepare_metadata(self, operation: Operation) -> Prepared:
        return self.environment.get_metadata, _unchanged

    # Its end

    def close(self) -> Any:
        """Closes the environment; returns an awaitable if its `close` is asynchronous."""
        return None if self.shape.close is None else self.shape.close.call(self.environment)


_PREPARE: dict[Kind, Callable[[Instance, Operation], Prepared]] = {
    Kind.STEP: Instance._prepare_step,
    Kind.RESET: Instance._prepare_reset,
    Kind.STATE: Instance._prepare_state,
    Kind.EVALUATE: Instance._prepare_evaluate,
    Kind.TASKS: Instance._prepare_tasks,
    Kind.METADATA: Instance._prepare_metadata,
    Kind.SNAPSHOT: Instance._prepare_snapshot,
    Kind.RESTORE: Instance._prepare_restore,
}
"""How operations are prepared that are no agent's.

It has no methods of an instance, which would keep that, and its environment, until garbage is
collected: what nothing uses any more goes at once.
"""


def _unchanged(value: Any) -> Any:
    return value


def _nothing() -> None:
    return None


def no_such_method(name: str) -> NotSupportedError:
    """Makes the error for a method of the task catalogue that an environment does not have."""
    return NotSupportedError(f"{name} is not supported for this environment")
