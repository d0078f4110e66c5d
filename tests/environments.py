"""Tiny environments that tests act on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

from pydantic import BaseModel

from openenv_grpc.environment import Environment
from openenv_grpc.errors import ClientAnswerError, ClientCapabilityError
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.tools import (
    CallToolAction,
    CallToolObservation,
    Elicited,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolOutcome,
    elicit,
    prompt,
    report_changed,
    report_log,
    report_progress,
    report_updated,
    resource,
    roots,
    sample,
    tool,
)
from openenv_grpc.types import Action, EnvironmentMetadata, Observation, State


class Count(Action):
    """Counts down by `by`; `text` is echoed."""

    by: int = 1
    text: str = ""


class Counted(Observation):
    """What is left."""

    left: int = 0
    text: str = ""


class Countdown(Environment[Count, Counted, State]):
    """Counts down from `start`. Over at 0; cut short after 100 steps. Keeps no books."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    left = 0
    steps = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, start: int = 3
    ) -> Counted:
        self.left, self.steps = start, 0
        return Counted(left=start, text=f"drew {self.rng.randrange(1000)}")

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        self.left -= action.by
        self.steps += 1
        short = self.steps >= 100
        return Counted(
            left=self.left,
            text=action.text,
            reward=float(action.by),
            done=self.left <= 0 or short,
            truncated=short and self.left > 0,
        )


class SharedCountdown(Countdown):
    """Shares a thread with the other sessions of its connection."""

    ISOLATION: ClassVar[str] = "shared"


class InlineCountdown(Countdown):
    """Runs on the event loop."""

    ISOLATION: ClassVar[str] = "inline"


class AsyncCountdown(Countdown):
    """Is awaited on the event loop."""

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, start: int = 3, **kwargs: Any
    ) -> Counted:
        await asyncio.sleep(0)
        return self.reset(seed, episode_id, start)

    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        await asyncio.sleep(0)
        return self.step(action, timeout_s)


class Lonely(Countdown):
    """Does not support concurrent sessions."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = False


class Strict(Countdown):
    """Has the server refuse steps outside of an episode."""

    REQUIRES_RESET: ClassVar[bool] = True


class Failing(Countdown):
    """Raises what the action's text names; by the name `state`, in its state from then on."""

    broken = False

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        match action.text:
            case "value":
                raise ValueError("no such move")
            case "validation":
                Counted.model_validate({"left": "many"})
            case "exit":
                raise SystemExit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "generator":
                raise GeneratorExit
            case "dictionary":
                return {"left": 1}  # type: ignore[return-value]  # what an author may do wrong
            case "state":
                self.broken = True
        return super().step(action, timeout_s)

    @property
    def state(self) -> State:
        if self.broken:
            raise RuntimeError("no state")
        return super().state


class NotBuilt(Countdown):
    """Its constructor fails."""

    def __init__(self) -> None:
        super().__init__()
        raise RuntimeError("no engine")


class Gates:
    """Events by which a test holds a blocking environment and sees what it does."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        """A step has begun."""
        self.leave = threading.Event()
        """The step may return."""
        self.closed = 0
        """How often an environment was closed."""


class Occupancy:
    """Counts how many environments live at once, by their own word."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._counting = threading.Lock()

    def change(self, by: int) -> None:
        """Counts one that comes or goes."""
        with self._counting:
            self.now += by
            self.most = max(self.most, self.now)


class Occupying(Countdown):
    """Counts itself, from its constructor to its close."""

    def __init__(self, occupancy: Occupancy | None = None) -> None:
        super().__init__()
        self.occupancy = occupancy or Occupancy()
        self.occupancy.change(1)

    def close(self) -> None:
        self.occupancy.change(-1)


class Slow(Countdown):
    """Blocks in a step whose text is `wait` until its gates open."""

    def __init__(self, gates: Gates | None = None) -> None:
        super().__init__()
        self.gates = gates or Gates()

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        if action.text == "wait":
            self.gates.entered.set()
            self.gates.leave.wait(10)
        return super().step(action, timeout_s)

    def close(self) -> None:
        self.gates.closed += 1


class AsyncSlow(AsyncCountdown):
    """Awaits for ever in a step whose text is `wait`."""

    def __init__(self, gates: Gates | None = None) -> None:
        super().__init__()
        self.gates = gates or Gates()

    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        if action.text == "wait":
            self.gates.entered.set()
            await asyncio.Event().wait()
        return await super().step_async(action, timeout_s)

    def close(self) -> None:
        self.gates.closed += 1


class BadClose(Countdown):
    """Fails to close."""

    def close(self) -> None:
        raise RuntimeError("cannot close")


class OwnBooks(Environment[Count, Counted, State]):
    """Keeps its state itself, as environments written for the reference do."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Counted:
        self._state = State(episode_id=episode_id or "mine", step_count=0)
        return Counted(text=str(sorted(kwargs)))

    def step(self, action: Count, timeout_s: float | None = None, **kwargs: Any) -> Counted:
        self._state.step_count += 10
        return Counted(text=str(sorted(kwargs)), left=0 if timeout_s is None else int(timeout_s))

    @property
    def state(self) -> State:
        return self._state


class Described(Countdown):
    """Has metadata of its own."""

    built: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).built += 1

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="described", description="A countdown", version="2")


class Tasks(Countdown):
    """Has a catalogue of tasks."""

    def list_splits(self) -> list[str]:
        return ["train", "test"]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        return [{"id": f"{split}-0"}, {"id": f"{split}-1"}][index]

    def num_tasks(self, split: str) -> int:
        raise NotImplementedError

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [{"id": f"{split}-0"}]


class Toolbox(MCPEnvironment):
    """Has tools."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    @tool
    def add(self, a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @tool
    def submit(self, answer: str) -> ToolOutcome:
        """Hands in an answer."""
        return ToolOutcome("taken", reward=1.0 if answer == "42" else 0.0, terminated=True)

    @tool
    def fail(self, reason: str) -> str:
        """Fails."""
        raise ValueError(reason)

    @tool(mode="simulation")
    def simulate(self) -> str:
        """Exists in simulations only."""
        return "simulated"


class Named(BaseModel):
    """What `Curious` asks for."""

    name: str


def _nothing() -> None:
    """Does nothing."""


class Curious(MCPEnvironment):
    """Has tools that ask the client of their caller, and counts how often they are called."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    @tool
    async def greet_later(self) -> str:
        """Asks the user for a name."""
        self.calls += 1
        return self._greeting(await elicit("Who are you?", Named, key="name"))

    @tool
    def greet(self) -> str:
        """Asks the user for a name, and blocks meanwhile."""
        self.calls += 1
        return self._greeting(elicit("Who are you?", Named, key="name").wait())

    @tool
    def greet_twice(self) -> str:
        """Asks the user twice, one after the other."""
        first = elicit("Who are you?", Named, key="first").wait()
        second = elicit("And who are you?", Named, key="second").wait()
        return f"{self._greeting(first)} {self._greeting(second)}"

    @tool
    async def ask_all(self) -> str:
        """Asks user, model and client at once."""
        name, said, found = elicit("Who are you?", Named), sample("Hi", max_tokens=5), roots()
        return f"{(await said).text}, {self._greeting(await name)}: {(await found)[0].uri}"

    @tool
    async def impatient(self) -> str:
        """Asks the user, who has no time to answer."""
        return self._greeting(await elicit("Quick, who are you?", Named, timeout_s=0.05))

    @tool
    def modest(self) -> str:
        """Asks the user, and makes do without."""
        try:
            return self._greeting(elicit("Who are you?", Named).wait())
        except ClientCapabilityError:
            return "hello, whoever you are"
        except ClientAnswerError as error:
            return f"nobody answers: {error}"

    @tool
    def count(self) -> int:
        """Tells how often the user was asked for a name."""
        return self.calls

    @tool
    def learn(self) -> str:
        """Makes another tool, and tells of all that changed."""
        self.tool(name="learned")(_nothing)
        report_changed("prompts")
        report_updated("curious://calls")
        return "learned"

    @prompt
    async def letter(self) -> str:
        """A letter to the user, who is asked for a name."""
        return f"Dear {(await elicit('Who are you?', Named)).content.name}"

    def _greeting(self, answer: Elicited[Named]) -> str:
        return answer.action if answer.content is None else f"hello {answer.content.name}"


class Library(MCPEnvironment):
    """Has resources and prompts, and tools that tell how far they are."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    @tool
    def work(self, steps: int) -> str:
        """Works, and tells of each step."""
        for number in range(1, steps + 1):
            report_progress(number, steps, f"step {number}")
        report_log({"steps": steps}, level="warning", logger="work")
        return f"done on {threading.current_thread().name}"

    @tool
    async def work_later(self, steps: int) -> str:
        """Works, and lets others work too."""
        for number in range(1, steps + 1):
            report_progress(number, steps, f"step {number}")
            await asyncio.sleep(0)
        report_log({"steps": steps}, level="warning", logger="work")
        return "done later"

    @resource("library://catalogue", mime_type="application/json")
    def catalogue(self) -> list[str]:
        """All books."""
        return ["dune", "emma"]

    @resource("library://books/{title}")
    async def book(self, title: str) -> str:
        """One book."""
        await asyncio.sleep(0)
        return f"the text of {title}"

    @prompt
    def review(self, title: str, words: int = 100) -> str:
        """Asks for a review."""
        return f"Review {title} in {words} words."


class ToolSteps(Environment[CallToolAction, CallToolObservation, State]):
    """Takes tool actions in `step`, without tools of its own."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:  # type: ignore[override]  # as such environments do
        return Observation()

    def step(self, action: Action, timeout_s: float | None = None) -> Any:
        match action:
            case ListToolsAction():
                say = Tool(name="say", description="Says it.", input_schema={"type": "object"})
                return ListToolsObservation(tools=[say])
            case CallToolAction(tool_name="odd"):
                return Observation()
            case CallToolAction():
                return CallToolObservation(
                    tool_name=action.tool_name, result=action.arguments, reward=0.25
                )
        raise AssertionError
