"""What an agent finds in an environment: tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Protocol

from openenv_grpc.engine import adapt, toolbox
from openenv_grpc.engine.adapt import ToolPath
from openenv_grpc.engine.books import Books
from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.operations import (
    Kind,
    Observed,
    Operation,
    PromptQuery,
    PromptsListed,
    ResourceQuery,
    Result,
    ToolsListed,
)
from openenv_grpc.tools import Offers, PromptInfo, ToolAnswer, ToolInfo
from openenv_grpc.tools.act import ActTool

Prepared = tuple[Callable[[], Any], Callable[[Any], Result]]
"""The call of the environment, and what makes a result of its value."""

_READING = frozenset({Kind.LIST_RESOURCES, Kind.READ_RESOURCE, Kind.LIST_PROMPTS, Kind.GET_PROMPT})
_FOREIGN = (ToolPath.CLIENT, ToolPath.SERVER)


class Episodes(Protocol):
    """What calls of tools that are steps in disguise need of the environment."""

    def step_call(self, operation: Operation, action: Any) -> Callable[[], Any]:
        """Returns the call of `step`."""
        ...

    def check_episode(self) -> None:
        """Raises where the episode does not allow a step."""
        ...

    @property
    def awaits_step(self) -> bool:
        """Whether `step` is awaited."""
        ...

    def observe_step(self, observation: Any) -> Observed:
        """Books a step and what it was rewarded with."""
        ...

    def stepped(self, observation: Any) -> Observed:
        """Does the same, and notes that the trainer was told of all that tools had earned."""
        ...


class AgentSide:
    """What an agent may ask of one environment. Everything here runs where that runs."""

    def __init__(
        self,
        environment: Any,
        registered: RegisteredEnvironment,
        books: Books,
        episodes: Episodes,
    ) -> None:
        self._environment = environment
        self._spec = registered.spec
        self._books = books
        self._episodes = episodes
        self._path = adapt.tool_path(environment)
        self._tool_actions = registered.tool_actions
        self._acts = self._path is ToolPath.NONE and self._tool_actions is None

    def prepared(self, operation: Operation) -> Prepared:
        """Returns how an operation of one of `AGENT_KINDS` is done."""
        return _PREPARE[operation.kind](self, operation)

    def awaits(self, kind: Kind) -> bool:
        """Tells whether operations of one of these kinds are awaited on the event loop."""
        if kind in _READING or self._path is not ToolPath.NONE:
            return self._path in _FOREIGN
        if self._acts and kind is Kind.LIST_TOOLS:
            return False
        return self._episodes.awaits_step

    def is_at_hand(self, kind: Kind) -> bool:
        """Tells whether the environment need not be asked."""
        return self._acts and kind is Kind.LIST_TOOLS

    # Tools

    def _list_tools(self, operation: Operation) -> Prepared:
        if self._acts:
            return partial(_same, [self._act.info]), _listed
        match self._path:
            case ToolPath.OWN:
                return self._environment.list_tools, _listed
            case ToolPath.CLIENT | ToolPath.SERVER as path:
                return partial(toolbox.list_tools, self._environment, path), _listed
            case ToolPath.NONE:
                action = self._tool_action("list_tools")()
                return self._episodes.step_call(operation, action), self._listed_by_step

    def _call_tool(self, operation: Operation) -> Prepared:
        read = operation.codec.read_tool_call(operation, self._spec)
        environment = self._environment
        if self._acts:
            action = self._act.read(read.name, read.arguments)
            self._episodes.check_episode()
            return self._episodes.step_call(operation, action), self._acted
        match self._path:
            case ToolPath.OWN:
                call = partial(
                    environment.call_tool, read.name, read.arguments, operation.timeout_s
                )
                return call, self._called
            case ToolPath.CLIENT | ToolPath.SERVER as path:
                call = partial(toolbox.call_tool, environment, path, read.name, read.arguments)
                return call, self._called
            case ToolPath.NONE:
                action = self._tool_action("call_tool")(
                    tool_name=read.name, arguments=read.arguments
                )
                return self._episodes.step_call(operation, action), self._called_by_step

    def _called(self, answer: ToolAnswer) -> ToolAnswer:
        self._books.earn(answer)
        return answer

    @cached_property
    def _act(self) -> ActTool:
        return ActTool(self._spec.action_reader, environment=self._spec.name)

    def _acted(self, observation: Any) -> ToolAnswer:
        observed = self._episodes.observe_step(observation)
        answer = self._act.answer(observation, done=observed.done)
        answer.reward, answer.rewards = observed.reward, observed.rewards
        answer.terminated = observed.done and not observed.truncated
        answer.truncated = observed.truncated
        return self._called(answer)

    # Tools of environments that take their calls as steps

    def _tool_action(self, name: str) -> type[Any]:
        assert self._tool_actions is not None  # else there is `act`
        return self._tool_actions[name]

    def _listed_by_step(self, observation: Any) -> ToolsListed:
        tools = self._field(observation, "list", "tools", "ListToolsObservation")
        return ToolsListed(
            tools=[
                ToolInfo(
                    name=tool.name, description=tool.description, input_schema=tool.input_schema
                )
                for tool in tools
            ],
            by_step=True,
        )

    def _called_by_step(self, observation: Any) -> ToolAnswer:
        observed = self._episodes.stepped(observation)
        self._field(observation, "call", "tool_name", "CallToolObservation")
        error = observation.error
        text = str(observation.result) if error is None else error.message
        return ToolAnswer(
            content=[{"type": "text", "text": text}],
            data=observation.result,
            is_error=error is not None,
            observation=observation,
            reward=observed.reward,
            rewards=observed.rewards,
            terminated=observed.done and not observed.truncated,
            truncated=observed.truncated,
        )

    def _field(self, observation: Any, call: str, field: str, expected: str) -> Any:
        """Returns a field that marks the class which a tool action asks for."""
        if not adapt.has_field(observation, field):
            raise TypeError(
                f"MCP-style tools/{call} step returned {type(observation).__name__}, expected "
                f"{expected}"
            )
        return vars(observation)[field]

    # Resources and prompts

    @cached_property
    def _offers(self) -> Offers:
        return adapt.offers(self._environment)

    def _list_resources(self, operation: Operation) -> Prepared:
        if self._path in _FOREIGN:
            return partial(toolbox.list_resources, self._foreign), _same
        return self._offers.list_resources, _same

    def _read_resource(self, operation: Operation) -> Prepared:
        query: ResourceQuery = operation.payload
        if self._path in _FOREIGN:
            return partial(toolbox.read_resource, self._foreign, query.uri), _same
        return partial(self._offers.read_resource, query.uri), _same

    def _list_prompts(self, operation: Operation) -> Prepared:
        if self._path in _FOREIGN:
            return partial(toolbox.list_prompts, self._foreign), _prompts
        return self._offers.list_prompts, _prompts

    def _get_prompt(self, operation: Operation) -> Prepared:
        query: PromptQuery = operation.payload
        if self._path in _FOREIGN:
            return partial(toolbox.get_prompt, self._foreign, query.name, query.arguments), _same
        return partial(self._offers.get_prompt, query.name, query.arguments), _same

    @property
    def _foreign(self) -> Any:
        return toolbox.session_with(self._environment, self._path)


_PREPARE: dict[Kind, Callable[[AgentSide, Operation], Prepared]] = {
    Kind.LIST_TOOLS: AgentSide._list_tools,
    Kind.CALL_TOOL: AgentSide._call_tool,
    Kind.LIST_RESOURCES: AgentSide._list_resources,
    Kind.READ_RESOURCE: AgentSide._read_resource,
    Kind.LIST_PROMPTS: AgentSide._list_prompts,
    Kind.GET_PROMPT: AgentSide._get_prompt,
}

AGENT_KINDS = frozenset(_PREPARE)
"""What an agent may ask."""


def _same(value: Any) -> Any:
    return value


def _listed(tools: list[ToolInfo]) -> ToolsListed:
    return ToolsListed(tools=tools)


def _prompts(prompts: list[PromptInfo]) -> PromptsListed:
    return PromptsListed(prompts=prompts)
