"""How a tool asks the client of its caller: questions, and the waiting for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from openenv_grpc.errors import ClientAnswerError, ClientCapabilityError, NotSupportedError
from openenv_grpc.tools.surroundings import within
from openenv_grpc.types import JsonValue

AnswerT = TypeVar("AnswerT")

Capability = Literal["elicitation", "sampling", "roots"]
"""What clients of MCP may offer to be asked."""
METHODS: dict[Capability, str] = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
CAPABILITIES = {method: capability for capability, method in METHODS.items()}
ANSWER_TIMEOUT_S = 300.0
"""How long a tool waits for an answer, unless it says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolQuestion:
    """A request of a tool to the client of its caller, as MCP has them."""

    key: str
    """Names it among those of one call."""
    method: str
    params: dict[str, JsonValue]
    answered: Future[JsonValue] = field(default_factory=Future)
    """Gets the result; cancelled if the tool has given up waiting."""

    def answer(self, result: JsonValue) -> None:
        """Gives the tool its answer, from any thread. Only the first counts."""
        with suppress(InvalidStateError):
            self.answered.set_result(result)

    def fail(self, told: str) -> None:
        """Tells the tool that there is no answer, and why."""
        with suppress(InvalidStateError):
            self.answered.set_exception(ClientAnswerError(told))

    def check(self, result: JsonValue) -> None:
        """Refuses what is no result of the method.

        Raises:
            ClientAnswerError: it is none.
        """
        match self.method, result:
            case "elicitation/create", {"action": "decline" | "cancel"}:
                return
            case "elicitation/create", {"action": "accept", **rest}:
                fits = isinstance(rest.get("content", {}), dict)
            case "sampling/createMessage", {"role": str(), "content": content, "model": str()}:
                fits = isinstance(content, dict | list)
            case "roots/list", {"roots": list(found)}:
                fits = all(isinstance(each, dict) and "uri" in each for each in found)
            case _:
                fits = False
        if not fits:
            raise ClientAnswerError(f"the answer to {self.key!r} is no result of {self.method}")


class Asks(Protocol):
    """Asks the client of a tool's caller."""

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities that it has declared."""
        ...

    def ask(self, questions: Sequence[ToolQuestion]) -> None:
        """Has it asked, from any thread, and never blocks."""
        ...


class Client(Asks, Protocol):
    """The client of a tool's caller, as far as it can be asked."""

    def hang_up(self, told: str) -> None:
        """Fails what is not answered, and whatever is asked from now on, with what is told."""
        ...


class Desk:
    """Where one call puts its questions. Those put before the first is waited for go together."""

    def __init__(self, client: Asks) -> None:
        self._client = client
        self._unsent: list[ToolQuestion] = []
        self._keys: set[str] = set()
        self._lock = threading.Lock()  # tools may ask from threads of their own

    def put(self, capability: Capability, params: dict[str, JsonValue], key: str) -> ToolQuestion:
        """Takes a question.

        Raises:
            ClientCapabilityError: the client does not offer that.
        """
        if capability not in self._client.offers:
            raise not_offered(capability)
        with self._lock:
            question = ToolQuestion(
                key=self._unique(key or capability), method=METHODS[capability], params=params
            )
            self._unsent.append(question)
        return question

    def send(self) -> None:
        """Has the client asked what it was not asked yet."""
        with self._lock:
            questions, self._unsent = self._unsent, []
        if questions:
            self._client.ask(questions)

    def _unique(self, key: str) -> str:
        unique, number = key, 1
        while unique in self._keys:
            number += 1
            unique = f"{key}-{number}"
        self._keys.add(unique)
        return unique


class Question(Generic[AnswerT]):
    """What a tool has asked: `await` it in an asynchronous tool, `wait()` in a plain one.

    It goes out when it is waited for, together with all that the tool has asked by then.

    Raises:
        ClientAnswerError: the client failed, is gone, or gave no answer in time that fits.
    """

    def __init__(
        self,
        desk: Desk,
        asked: ToolQuestion,
        read: Callable[[JsonValue], AnswerT],
        timeout_s: float | None,
    ) -> None:
        self._desk = desk
        self._asked = asked
        self._read = read
        self._timeout_s = timeout_s

    def __await__(self) -> Generator[Any, None, AnswerT]:
        return self._answer().__await__()

    async def _answer(self) -> AnswerT:
        self._desk.send()
        try:
            async with asyncio.timeout(self._timeout_s):
                return self._read(await asyncio.wrap_future(self._asked.answered))
        except TimeoutError:
            raise self._too_late() from None

    def wait(self) -> AnswerT:
        """Blocks until the answer is there.

        Raises:
            RuntimeError: an event loop runs on this thread, which would never get it.
        """
        if _loop_is_running():
            raise RuntimeError("an asynchronous tool awaits what it asks: wait() would never end")
        self._desk.send()
        try:
            return self._read(self._asked.answered.result(self._timeout_s))
        except TimeoutError:
            self._asked.answered.cancel()
            raise self._too_late() from None

    def _too_late(self) -> ClientAnswerError:
        return ClientAnswerError(
            f"the client did not answer {self._asked.key!r} within {self._timeout_s:g} seconds"
        )


_DESK: ContextVar[Desk | None] = ContextVar("openenv_grpc_desk", default=None)


def desk() -> Desk:
    """Returns where the tool that runs can ask. Without a caller's client it is refused there."""
    return _DESK.get() or Desk(_Nobody())


def asking(client: Asks, call: Callable[[], Any]) -> Any:
    """Makes a call such that it can ask a client, even in what of it is awaited later."""
    return within(_DESK, Desk(client), call)


class _Nobody:
    """Stands for the client of a caller who has none, or cannot be asked."""

    offers: frozenset[str] = frozenset()

    def ask(self, questions: Sequence[ToolQuestion]) -> None:
        """Is never called."""


class Unreachable:
    """Stands for a client that an environment on the event loop cannot wait for."""

    @property
    def offers(self) -> frozenset[str]:
        """Refuses."""
        raise NotSupportedError(
            'tools of an environment with ISOLATION = "inline" cannot ask their client: they run '
            "on the event loop, which the answer comes over"
        )

    def ask(self, questions: Sequence[ToolQuestion]) -> None:
        """Is never called."""


def not_offered(capability: Capability) -> ClientCapabilityError:
    """Makes the error for what a client does not offer."""
    return ClientCapabilityError(
        f"the tool asks its caller's client for {capability}, which that does not offer; call it "
        "by an MCP client that does",
        metadata={"capability": capability},
    )


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
