"""Environments that an agent acts in by tools: methods, functions, and the tools of MCP servers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import TypeVar as TypeVarWithDefault

from openenv_grpc.code_mode import Callables, CodeLimits, run_code
from openenv_grpc.environment import Environment
from openenv_grpc.errors import (
    ClientCapabilityError,
    DeadlineExceededError,
    Effect,
    InvalidActionError,
    InvalidArgumentsError,
    OpenEnvError,
    ToolNotFoundError,
)
from openenv_grpc.mcp_servers import ServerSession, open_session
from openenv_grpc.own_loop import Held, OwnLoop
from openenv_grpc.rubrics import Rubric
from openenv_grpc.served_library import ServedLibrary
from openenv_grpc.tools import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Offers,
    Tool,
    ToolAnswer,
    ToolError,
    ToolErrorType,
    ToolFunction,
    ToolInfo,
)
from openenv_grpc.tools.changes import report_changed
from openenv_grpc.tools.functions import ToolMode
from openenv_grpc.tools.toolbox import Toolbox, check_name
from openenv_grpc.transforms import Transform
from openenv_grpc.types import Action, JsonValue, Observation, ServerMode, State

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
ActT = TypeVarWithDefault("ActT", bound=Action, default=Action)
ObsT = TypeVarWithDefault("ObsT", bound=Observation, default=Observation)
StateT = TypeVarWithDefault("StateT", bound=State, default=State)
logger = logging.getLogger(__name__)

MCP_TOOL_CALL_TIMEOUT = 30.0
"""Seconds that a tool called by `step` may take, unless the step brings a limit of its own."""

_ERROR_TYPES: dict[type[OpenEnvError], ToolErrorType] = {
    ToolNotFoundError: ToolErrorType.TOOL_NOT_FOUND,
    InvalidArgumentsError: ToolErrorType.INVALID_ARGS,
    DeadlineExceededError: ToolErrorType.TIMEOUT,
    ClientCapabilityError: ToolErrorType.EXECUTION_ERROR,
}


class MCPEnvironment(Environment[ActT, ObsT, StateT], Generic[ActT, ObsT, StateT]):
    """Base class of environments with tools.

    Tools are methods under `@tool`, functions under `@self.tool()`, and those of `mcp_server`, a
    server of the packages `mcp` or `fastmcp`. Plain functions run on the environment's own thread,
    like `reset` and `step`; limits of time cannot interrupt them. Asynchronous ones and those of a
    server run on a loop of the environment, and one session with the server lasts as long as the
    environment.

    A subclass writes `reset`. One with actions of its own beside the tools says so
    (`MCPEnvironment[Move, Board, State]`) and applies them in `_step_impl`.

    Raises:
        ValueError: a tool has a reserved name.
    """

    CODE_LIMITS: ClassVar[CodeLimits] = CodeLimits()
    """What code may use that `execute_code` runs."""

    mcp_server: Any = None
    _runs_code = False
    _mode: ServerMode = ServerMode.SIMULATION  # set by the server that runs the environment

    def __init__(
        self,
        mcp_server: Any = None,
        transform: Transform[ObsT] | None = None,
        rubric: Rubric | None = None,
    ) -> None:
        super().__init__(transform=transform, rubric=rubric)
        self.mcp_server = mcp_server
        try:
            for info in self._list_served():
                check_name(info.name)
            for tool in self._tools:
                tool.info()  # finds functions that cannot be tools before anyone asks for them
        except BaseException:
            self.close()
            raise

    def tool(
        self,
        mode: ToolMode | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Makes a function a tool of this instance; with `mode`, only while that is the server's.

        Raises:
            ValueError: the name is reserved, or there is no such mode.
        """

        def register(function: FunctionT) -> FunctionT:
            made = ToolFunction(function, name=name, description=description, mode=mode)
            self._tools.add(made.bound(function))
            report_changed("tools")
            return function

        return register

    def list_tools(self) -> list[ToolInfo]:
        """Lists the tools that exist in the server's mode: an MCP server's first, then ours."""
        return [
            *(info for info in self._list_served() if not self._hides(info.name)),
            *(tool.info() for tool in self._tools.available(self._mode)),
        ]

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        timeout_s: float | None = None,
    ) -> ToolAnswer:
        """Calls a tool. One that fails answers with `is_error`.

        Raises:
            ToolNotFoundError: there is no such tool, or not in the server's mode.
            InvalidArgumentsError: the arguments do not fit.
            DeadlineExceededError: `timeout_s` passed.
            ClientCapabilityError: it asks for what its caller's client does not offer.
        """
        if self.mcp_server is not None and not self._hides(name):
            return self._loop.run(_within(self._call_served(name, arguments), name, timeout_s))
        answer = self._tools.find(name, self._mode).answer(arguments)
        if isinstance(answer, ToolAnswer):
            return answer
        return self._loop.run(_within(answer, name, timeout_s))

    def step(  # type: ignore[override]  # a tool answers with an observation of its own
        self, action: Action, timeout_s: float | None = None, **kwargs: Any
    ) -> Observation:
        """Lists tools, calls one, or hands any other action to `_step_impl`."""
        match action:
            case ListToolsAction():
                return self._observe_tools()
            case CallToolAction():
                return self._observe_call(action, timeout_s)
            case _:
                return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    async def step_async(  # type: ignore[override]  # as `step`
        self, action: Action, timeout_s: float | None = None, **kwargs: Any
    ) -> Observation:
        """Does what `step` of this class does, on another thread, one step at a time."""

        def step() -> Observation:
            with self._turn:
                # Not `self.step`: a subclass that overrides both calls each from its own.
                return MCPEnvironment.step(self, action, timeout_s, **kwargs)

        return await asyncio.to_thread(step)

    def _step_impl(
        self,
        action: Any,  # so that a subclass can name its own class
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> ObsT:
        """Applies an action that is no tool call. Refuses it, unless overridden."""
        raise InvalidActionError(
            f"{type(self).__name__} has tools alone: its actions are list_tools and call_tool, and "
            f"{type(action).__name__} is neither. An environment that has other actions besides "
            "applies them in _step_impl"
        )

    @property
    def supports_code_mode(self) -> bool:
        """Whether `execute_code` works: always."""
        return True

    def get_callables(self) -> dict[str, Callable[..., Any]]:
        """Returns the tools as functions, which raise if the tool fails."""
        return Callables(self.call_tool).functions(self.list_tools())

    def execute_code(self, code: str, timeout_s: float | None = None) -> Observation:
        """Runs Python in a process of its own, with the tools as functions.

        The tools run here, on the thread of the caller. `metadata` has `result`, what the code's
        variable of that name holds, or `error`; and `stdout`, if something was printed. The reward
        is what the tools have earned, and the episode is over if one of them ended it.
        `CODE_LIMITS` says how much time and memory the code has.

        Raises:
            RuntimeError: a tool that code calls runs code itself.
        """
        if self._runs_code:
            raise RuntimeError("code cannot run code: a tool that it calls has called execute_code")
        limits = self.CODE_LIMITS
        if timeout_s is not None:
            limits = replace(limits, timeout_s=timeout_s)
        callables = Callables(partial(self.call_tool, timeout_s=limits.timeout_s))
        self._runs_code = True
        try:
            outcome = run_code(code, callables.functions(self.list_tools()), limits)
        finally:
            self._runs_code = False
        failed = outcome.error is not None
        metadata = {"error": outcome.error} if failed else {"result": outcome.result}
        if outcome.stdout:
            metadata["stdout"] = outcome.stdout
        return Observation(
            metadata=metadata,
            reward=callables.reward,
            done=callables.terminated or callables.truncated,
            truncated=callables.truncated and not callables.terminated,
        )

    @asynccontextmanager
    async def mcp_session(self) -> AsyncIterator[ServerSession]:
        """Opens another session with the MCP server, on the caller's event loop.

        Raises:
            RuntimeError: there is no server, or the environment is closed.
        """
        if self.mcp_server is None:
            raise RuntimeError(f"{type(self).__name__} has no MCP server, or is closed")
        session = Held(open_session(self.mcp_server))
        try:
            yield await session.get()
        finally:
            await session.leave()

    def close(self) -> None:
        """Ends the session with the MCP server. A subclass that overrides this calls it."""
        if self.mcp_server is not None:
            self._loop.run(self._session.leave())
            self.mcp_server = None
        self._loop.close()

    def _observe_tools(self) -> ListToolsObservation:
        try:
            tools = [
                Tool(name=each.name, description=each.description, input_schema=each.input_schema)
                for each in self.list_tools()
            ]
        except Exception as error:  # a server of another package may fail in any way
            logger.debug("list of tools failed", exc_info=True)
            return ListToolsObservation(
                tools=[], metadata={"error": str(error), "error_type": "list_tools_failed"}
            )
        return ListToolsObservation(tools=tools)

    def _observe_call(self, action: CallToolAction, timeout_s: float | None) -> CallToolObservation:
        limit_s = MCP_TOOL_CALL_TIMEOUT if timeout_s is None else timeout_s
        try:
            answer = self.call_tool(action.tool_name, action.arguments, limit_s)
        except tuple(_ERROR_TYPES) as error:
            failed = ToolError(error_type=_ERROR_TYPES[type(error)], message=error.message)
            return CallToolObservation(tool_name=action.tool_name, error=failed)
        if answer.is_error:
            failed = ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=answer.text())
            return CallToolObservation(
                tool_name=action.tool_name, error=failed, reward=answer.reward
            )
        return CallToolObservation(
            tool_name=action.tool_name,
            result=answer.as_result(),
            reward=answer.reward,
            done=answer.terminated or answer.truncated,
            truncated=answer.truncated,
        )

    def _hides(self, name: str) -> bool:
        """Tells whether a server's tool of that name cannot be seen."""
        return name in self._tools or name in RESERVED_TOOL_NAMES

    def _list_served(self) -> list[ToolInfo]:
        async def listed() -> list[ToolInfo]:
            return await (await self._session.get()).list_tools()

        return [] if self.mcp_server is None else self._loop.run(listed())

    async def _served(self) -> ServerSession | None:
        return None if self.mcp_server is None else await self._session.get()

    async def _call_served(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        return await (await self._session.get()).call_tool(name, arguments)

    # Made when first asked for, so that a subclass can use them before `super().__init__()`, or
    # without it.

    @cached_property
    def _tools(self) -> Toolbox:
        return Toolbox(self)

    @cached_property
    def _offers(self) -> Offers:
        """The resources and prompts of the class, and of the MCP server."""
        return ServedLibrary(self, self._loop.run, self._served)

    @cached_property
    def _loop(self) -> OwnLoop:
        return OwnLoop()

    @cached_property
    def _session(self) -> Held[ServerSession]:
        return Held(open_session(self.mcp_server))

    @cached_property
    def _turn(self) -> threading.Lock:
        return threading.Lock()  # one `step_async` at a time, whichever threads they borrow


async def _within(
    answer: Coroutine[Any, Any, ToolAnswer], name: str, timeout_s: float | None
) -> ToolAnswer:
    """Waits for a tool's answer. Tools do not raise: a `TimeoutError` is the limit's."""
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError as error:
        raise DeadlineExceededError(
            f"Tool {name!r} timed out after {timeout_s} seconds", effect=Effect.UNKNOWN
        ) from error
