"""Environments with tools: of their own, and of MCP servers of whatever version is installed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    InvalidActionError,
    InvalidArgumentsError,
    ToolNotFoundError,
)
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.rubrics import Rubric
from openenv_grpc.tools import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolErrorType,
    ToolOutcome,
    tool,
)
from openenv_grpc.transforms import NullTransform
from openenv_grpc.types import Action, Observation, ServerMode
from tests.mcp_packages import FUNCTIONS, SERVERS

MakeServer = Callable[..., Any]
MakeEnvironment = Callable[[], MCPEnvironment]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keeps MCP packages from printing the tracebacks of tools that fail on purpose."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class Bench(MCPEnvironment):
    def reset(self, **kwargs: Any) -> Observation:
        return Observation()


class Own(Bench):
    """Does not call `super().__init__()`, as authors forget."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    @tool
    def add(self, a: int, b: int) -> int:
        """Add two integers."""
        self.threads.append(threading.get_ident())
        return a + b

    @tool
    def boom(self, reason: str) -> str:
        """Always raises."""
        raise ValueError(f"boom: {reason}")

    @tool
    async def nap(self) -> str:
        """Never answers."""
        self.threads.append(threading.get_ident())
        await asyncio.Event().wait()
        return "rested"

    @tool
    def record(self) -> dict[str, Any]:
        """Return a small object."""
        return {"k": [1, 2], "s": "t"}


class Registered(Bench):
    """Registers functions before `super().__init__()`, as the reference's documents show."""

    def __init__(self) -> None:
        for function in FUNCTIONS.values():
            self.tool()(function)
        super().__init__()


def served_by(make_server: MakeServer) -> MakeEnvironment:
    return lambda: Bench(make_server())


KINDS: dict[str, MakeEnvironment] = {
    "methods": Own,
    "functions": Registered,
    **{name: served_by(make_server) for name, make_server in SERVERS.items()},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def environment(request: pytest.FixtureRequest) -> Iterator[MCPEnvironment]:
    made = request.param()
    yield made
    made.close()


@pytest.fixture(params=SERVERS.values(), ids=SERVERS.keys())
def make_server(request: pytest.FixtureRequest) -> MakeServer:
    made: MakeServer = request.param
    return made


def call(environment: MCPEnvironment, name: str, **arguments: Any) -> CallToolObservation:
    action = CallToolAction(tool_name=name, arguments=arguments)
    observation = environment.step(action, timeout_s=20)
    assert isinstance(observation, CallToolObservation)
    assert observation.tool_name == name
    return observation


def test_a_step_lists_the_tools(environment: MCPEnvironment) -> None:
    observation = environment.step(ListToolsAction())

    assert isinstance(observation, ListToolsObservation)
    assert [each.name for each in observation.tools] == ["add", "boom", "nap", "record"]
    assert observation.tools[0].description == "Add two integers."
    assert observation.tools[0].input_schema["required"] == ["a", "b"]
    assert (observation.reward, observation.done) == (None, False)


def test_a_step_calls_a_tool(environment: MCPEnvironment) -> None:
    observation = call(environment, "add", a=1, b=2)

    assert str(observation.result) == "3"
    assert observation.result["data"] == 3
    assert observation.result["structured_content"] == {"result": 3}
    assert observation.result["content"] == [
        {"type": "text", "text": "3", "annotations": None, "meta": None}
    ]
    assert observation.result["is_error"] is False
    assert (observation.error, observation.reward, observation.done) == (None, None, False)


def test_an_object_comes_back_as_it_is(environment: MCPEnvironment) -> None:
    assert call(environment, "record").result["data"] == {"k": [1, 2], "s": "t"}


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "message"),
    [
        ("boom", {"reason": "invalid argument"}, ToolErrorType.EXECUTION_ERROR, "boom"),
        ("nosuch", {}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'nosuch'"),
        ("reset", {}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'reset'"),
        ("add", {"a": "x", "b": 1}, ToolErrorType.INVALID_ARGS, "Invalid arguments for tool 'add'"),
        ("add", {"a": 1}, ToolErrorType.INVALID_ARGS, "Invalid arguments for tool 'add'"),
    ],
    ids=["raises", "unknown", "reserved", "wrong type", "missing"],
)
def test_a_failed_call_is_an_observation_that_says_how_it_failed(
    environment: MCPEnvironment,
    name: str,
    arguments: dict[str, Any],
    kind: ToolErrorType,
    message: str,
) -> None:
    observation = call(environment, name, **arguments)

    assert observation.result is None
    assert observation.error is not None
    assert observation.error.error_type is kind
    assert message in observation.error.message


def test_a_tool_that_takes_too_long_is_cancelled(environment: MCPEnvironment) -> None:
    observation = environment.step(CallToolAction(tool_name="nap"), timeout_s=0.05)

    assert isinstance(observation, CallToolObservation)
    assert observation.error is not None
    assert observation.error.error_type is ToolErrorType.TIMEOUT
    assert observation.error.message == "Tool 'nap' timed out after 0.05 seconds"
    assert call(environment, "add", a=1, b=2).result["data"] == 3


def test_a_step_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_grpc.mcp_environment.MCP_TOOL_CALL_TIMEOUT", 0.05)
    environment = Own()

    observation = environment.step(CallToolAction(tool_name="nap"))
    environment.close()

    assert isinstance(observation, CallToolObservation)
    assert observation.error is not None
    assert observation.error.message == "Tool 'nap' timed out after 0.05 seconds"


def test_tools_can_be_called_without_a_step(environment: MCPEnvironment) -> None:
    assert [info.name for info in environment.list_tools()] == ["add", "boom", "nap", "record"]
    assert environment.call_tool("add", {"a": 1, "b": 2}).data == 3
    assert environment.call_tool("boom", {"reason": "r"}).is_error
    with pytest.raises(ToolNotFoundError):
        environment.call_tool("nosuch", {})
    with pytest.raises(InvalidArgumentsError):
        environment.call_tool("add", {})
    with pytest.raises(DeadlineExceededError) as raised:
        environment.call_tool("nap", {}, timeout_s=0.05)
    assert raised.value.effect is Effect.UNKNOWN


async def test_everything_works_where_a_loop_runs(environment: MCPEnvironment) -> None:
    action = CallToolAction(tool_name="add", arguments={"a": 1, "b": 2})

    both = await asyncio.gather(environment.step_async(action), environment.step_async(action))
    listed = await environment.step_async(ListToolsAction())

    assert [observation.result["data"] for observation in both] == [3, 3]  # type: ignore[attr-defined]
    assert isinstance(listed, ListToolsObservation)
    assert call(environment, "add", a=1, b=2).result["data"] == 3


async def test_an_asynchronous_tool_can_be_called_where_a_loop_runs() -> None:
    class Waiting(Bench):
        @tool
        async def wait(self) -> str:
            await asyncio.sleep(0)
            return "done"

    environment = Waiting()

    assert call(environment, "wait").result["data"] == "done"
    environment.close()


def test_tools_run_on_the_callers_thread() -> None:
    environment = Own()

    call(environment, "add", a=1, b=2)
    environment.step(CallToolAction(tool_name="nap"), timeout_s=0.05)
    environment.close()

    assert environment.threads == [threading.get_ident()] * 2


async def test_a_blocking_tool_does_not_block_the_loop() -> None:
    environment = Own()

    await environment.step_async(CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))

    assert threading.get_ident() not in environment.threads


def test_an_outcome_rewards_and_ends_the_episode() -> None:
    class Game(Bench):
        @tool
        def win(self) -> ToolOutcome:
            return ToolOutcome("won", reward=1, terminated=True)

        @tool
        def give_up(self) -> ToolOutcome:
            return ToolOutcome("over", truncated=True)

    won, over = call(Game(), "win"), call(Game(), "give_up")

    assert (str(won.result), won.reward, won.done, won.truncated) == ("won", 1, True, False)
    assert (over.reward, over.done, over.truncated) == (None, True, True)


class Moded(Bench):
    def __init__(self) -> None:
        super().__init__()

        @self.tool(mode="production", name="act")
        def perform() -> str:
            return "performed"

        @self.tool(mode="simulation", description="Acts.")
        def act() -> str:
            return "acted"

        @self.tool(mode=ServerMode.PRODUCTION)
        def ship(count: int) -> str:
            return "shipped"


@pytest.mark.parametrize(
    ("mode", "names", "acted"),
    [("simulation", ["act"], "acted"), ("production", ["act", "ship"], "performed")],
)
def test_tools_of_a_mode_exist_in_it_alone(mode: str, names: list[str], acted: str) -> None:
    environment = Moded()
    environment._mode = ServerMode(mode)

    assert [info.name for info in environment.list_tools()] == names
    assert str(call(environment, "act").result) == acted


def test_a_tool_of_another_mode_is_not_found() -> None:
    error = call(Moded(), "ship").error

    assert error is not None
    assert error.error_type is ToolErrorType.TOOL_NOT_FOUND
    assert error.message == "Tool 'ship' not available in simulation mode"


def test_a_decorated_function_stays_a_function() -> None:
    environment = Bench()

    @environment.tool()
    def double(number: int) -> int:
        return 2 * number

    assert double(2) == 4
    assert call(environment, "double", number="3").result["data"] == 6


@pytest.mark.parametrize("name", ["reset", "step", "state", "close"])
def test_reserved_names_are_refused_at_construction(make_server: MakeServer, name: str) -> None:
    def act() -> None: ...

    cheat = type("Cheat", (Bench,), {"act": tool(name=name)(act)})

    for make in (cheat, lambda: Bench(make_server({name: act}))):
        with pytest.raises(ValueError, match=f"the tool name '{name}' is reserved"):
            make()
    with pytest.raises(ValueError, match=f"the tool name '{name}' is reserved"):
        Bench().tool(name=name)(act)


def test_there_are_no_other_modes() -> None:
    with pytest.raises(ValueError, match="not 'training'"):
        Bench().tool(mode="training")(FUNCTIONS["add"])  # type: ignore[arg-type]  # on purpose


def test_a_reserved_tool_that_a_server_gets_later_is_not_there(make_server: MakeServer) -> None:
    server = make_server({"add": FUNCTIONS["add"]})
    environment = Bench(server)

    server.tool(name="reset")(FUNCTIONS["record"])
    listed = [info.name for info in environment.list_tools()]
    error = call(environment, "reset").error
    environment.close()

    assert listed == ["add"]
    assert error is not None
    assert error.error_type is ToolErrorType.TOOL_NOT_FOUND


def test_a_tool_of_the_environment_stands_before_the_servers(make_server: MakeServer) -> None:
    class Both(Bench):
        @tool
        def add(self, a: int, b: int) -> str:
            """Add for real."""
            return f"{a} and {b}"

    environment = Both(make_server())
    listed = {info.name: info.description for info in environment.list_tools()}
    added = call(environment, "add", a=1, b=2)
    environment.close()

    assert str(added.result) == "1 and 2"
    assert listed["add"] == "Add for real."
    assert set(listed) == {"add", "boom", "nap", "record"}


def test_one_session_with_a_server_lasts_as_long_as_the_environment(
    make_server: MakeServer,
) -> None:
    environment = Bench(make_server())

    assert environment._session is environment._session
    environment.close()

    assert environment.mcp_server is None
    with pytest.raises(ToolNotFoundError):
        environment.call_tool("add", {"a": 1, "b": 2})


async def test_another_session_can_be_opened(make_server: MakeServer) -> None:
    environment = Bench(make_server())

    async with environment.mcp_session() as session:
        assert (await session.call_tool("add", {"a": 1, "b": 2})).data == 3
    with pytest.raises(ToolNotFoundError):
        async with environment.mcp_session() as session:
            await session.call_tool("nosuch", {})
    environment.close()

    with pytest.raises(RuntimeError, match="Bench has no MCP server, or is closed"):
        async with environment.mcp_session():
            pass


def test_an_environment_can_be_closed_twice(environment: MCPEnvironment) -> None:
    environment.close()
    environment.close()


def test_a_list_that_fails_says_so() -> None:
    class Broken(Bench):
        @tool
        def odd(self, thing: object, *more: object) -> None: ...

    class Late(Broken):
        def __init__(self) -> None:
            """Skips the check of its tools."""

    observation = Late().step(ListToolsAction())

    assert isinstance(observation, ListToolsObservation)
    assert observation.tools == []
    assert observation.metadata["error_type"] == "list_tools_failed"
    assert "take their arguments by name" in observation.metadata["error"]


class Move(Action):
    column: int


def test_other_actions_are_refused_unless_the_author_takes_them() -> None:
    with pytest.raises(
        InvalidActionError, match="Bench has tools alone: its actions are list_tools and call_tool"
    ):
        Bench().step(Move(column=1))


async def test_other_actions_go_to_the_author() -> None:
    class Board(Bench):
        def _step_impl(
            self, action: Action, timeout_s: float | None = None, **kwargs: Any
        ) -> Observation:
            return Observation(metadata={"action": action, "timeout_s": timeout_s, **kwargs})

    expected = {"action": Move(column=1), "timeout_s": 2.0, "hint": "h"}

    assert Board().step(Move(column=1), 2.0, hint="h").metadata == expected
    assert (await Board().step_async(Move(column=1), 2.0, hint="h")).metadata == expected


async def test_a_subclass_that_overrides_both_steps_counts_each_once() -> None:
    class Counting(Own):
        steps = 0

        def step(
            self, action: Action, timeout_s: float | None = None, **kwargs: Any
        ) -> Observation:
            self.steps += 1
            return super().step(action, timeout_s, **kwargs)

        async def step_async(
            self, action: Action, timeout_s: float | None = None, **kwargs: Any
        ) -> Observation:
            self.steps += 1
            return await super().step_async(action, timeout_s, **kwargs)

    environment = Counting()

    environment.step(ListToolsAction())
    await environment.step_async(ListToolsAction())

    assert environment.steps == 2


def test_transform_and_rubric_are_taken() -> None:
    class One(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return 1.0

    transform, rubric = NullTransform[Observation](), One()
    environment = Bench(transform=transform, rubric=rubric)

    assert (environment.transform, environment.rubric) == (transform, rubric)
    assert environment._apply_rubric(ListToolsAction(), Observation()) == 1.0


def test_an_mcp_package_is_not_imported_for_tools_of_our_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
    environment = Own()

    assert call(environment, "add", a=1, b=2).result["data"] == 3


# Code mode


class Coder(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, **kwargs: Any) -> Observation:
        return Observation()

    @tool
    def add(self, a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    @tool
    async def later(self, number: int) -> int:
        """Answers later."""
        await asyncio.sleep(0)
        return number

    @tool
    def pay(self, amount: float) -> ToolOutcome:
        """Pays."""
        return ToolOutcome("thanks", reward=amount, terminated=amount > 1)

    @tool
    def thread(self) -> int:
        """Tells where it runs."""
        return threading.get_ident()

    @tool
    def run(self, code: str) -> dict[str, Any]:
        """Runs code."""
        return self.execute_code(code, 60).metadata

    @tool
    async def endless(self) -> None:
        """Never answers."""
        await asyncio.Event().wait()


@pytest.fixture
def coder() -> Iterator[Coder]:
    environment = Coder()
    yield environment
    environment.close()


def test_tools_are_functions_too(coder: Coder) -> None:
    made = coder.get_callables()
    assert made["add"](1, b=2) == 3
    assert made["later"](4) == 4
    with pytest.raises(InvalidArgumentsError):
        made["add"]("x")
    assert coder.supports_code_mode


def test_code_calls_tools_on_the_environments_thread(coder: Coder) -> None:
    code = "def twice(x): return add(later(x), x)\nprint('hi')\nresult = [twice(2), thread()]"
    observation = coder.execute_code(code, 60)
    assert observation.metadata == {"result": [4, threading.get_ident()], "stdout": "hi\n"}
    assert (observation.reward, observation.done) == (None, False)


def test_what_the_tools_of_code_earn_is_its_reward(coder: Coder) -> None:
    observation = coder.execute_code("pay(0.5)\npay(2)\n1 / 0", 60)
    assert observation.metadata == {"error": "ZeroDivisionError: division by zero, line 3"}
    assert (observation.reward, observation.done) == (2.5, True)


def test_a_tool_may_run_code_but_code_may_not_run_code(coder: Coder) -> None:
    assert coder.call_tool("run", {"code": "result = add(1)"}).data == {"result": 2}
    nested = coder.call_tool("run", {"code": "result = run('result = 1')"}).data
    assert "code cannot run code" in nested["error"]
    assert coder.call_tool("run", {"code": "result = add(2)"}).data == {"result": 3}


def test_a_tool_that_does_not_answer_takes_no_longer_than_the_code_may(coder: Coder) -> None:
    observation = coder.execute_code("endless()", 1)
    assert "1" in observation.metadata["error"]


@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS.keys())
def test_tools_of_a_server_are_functions_too(make_server: Any) -> None:
    class Served(MCPEnvironment):
        def reset(self, **kwargs: Any) -> Observation:
            return Observation()

    environment = Served(make_server())
    try:
        assert environment.execute_code("result = add(1, b=2)", 60).metadata == {"result": 3}
    finally:
        environment.close()
