"""The environments of one server: what is handed in, checked and described."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import BaseModel

from openenv_grpc import busy_polling
from openenv_grpc.crew import Crew
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.engine import adapt
from openenv_grpc.engine.adapt import Shape
from openenv_grpc.engine.buildable import check_buildable
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import ConcurrencyConfigurationError, ConfigurationError
from openenv_grpc.serialization import ActionReader
from openenv_grpc.tools import TOOL_ACTIONS
from openenv_grpc.types import Action, Budgets

DEFAULT_SESSIONS = 256
"""Sessions of an environment that supports several, if nobody says otherwise."""

LEAST_CLOSE_TIMEOUT_S = 10.0
"""How long an environment's `close` is waited for, unless a setting says otherwise, or its class
that it may take longer."""

REFERENCE_TYPES = "openenv.core.env_server.types"
REFERENCE_TOOL_TYPES = "openenv.core.env_server.mcp_types"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How sessions are run. Times are in seconds.

    Raises:
        ConfigurationError: a limit is below 0.
    """

    max_sessions: int | None = None
    """Sessions of an environment whose definition does not say; see `EnvironmentDefinition`."""
    session_timeout_s: float | None = None
    """How long a session may idle; `None` for ever."""
    stuck_grace_s: float = 10.0
    """How long a call on a thread may run on past its deadline before its session is given up."""
    max_stuck: int = 8
    """Calls that may run on although their session was given up, before health says so."""
    opens_per_minute: float | None = 6_000
    """Sessions that each peer beyond this machine may open; `None` for any number."""
    close_timeout_s: float | None = None
    """How long an environment's `close` is waited for; `None` takes its class's word, and 10 where
    that says nothing, or less."""
    max_operations_per_session: int = 16
    """Operations in flight in one session; further ones are refused."""
    redact_errors: bool = False
    """Whether clients are told only that an environment failed, not how."""
    isolation: str | None = None
    """Where environments run whose definition does not say; `None` takes their class's word."""
    process_pool_size: int = 2
    """Processes that wait for a session, of each environment that runs in processes."""
    worker_memory_bytes: int | None = None
    """Address space of such a process; `None` for no limit."""
    otel: bool = False
    """Whether OpenTelemetry is configured by its variables, in these processes as well."""
    max_resume_window_s: float = 600.0
    """The longest time for which a session outlives its connection; 0 for not at all."""
    detached_grace_s: float = 10.0
    """How long a detached session keeps its slot although somebody else wants it."""
    queue_timeout_s: float = 300.0
    """The longest time for which an opening waits for a slot."""
    max_queued: int = 1_024
    """Openings that may wait at once; 0 refuses at once where no slot is free."""
    queue_beat_s: float = 5.0
    """How often an opening that waits is told its place."""
    hold_and_wait_grace_s: float = 10.0
    """How long a connection may leave all slots idle that its own openings wait for."""
    max_records: int = 64
    """Answers that a session keeps for those who ask again."""
    max_record_bytes: int = 8 * 2**20
    """What they may take, all together."""
    max_kept_records: int = 1_000
    """Ended sessions whose answers are kept until their windows have passed."""
    max_kept_record_bytes: int = 64 * 2**20
    """Answers of ended sessions that are kept, all together."""
    max_snapshots: int = 1_000
    """Snapshots that are kept; past it the one that was not used for longest is dropped. With 0
    there are none."""
    max_snapshot_bytes: int = 256 * 2**20
    """What they may take, all together."""
    busy_poll_s: float = field(default_factory=busy_polling.limit_of_variable)
    """How long the event loop looks for what is asked next before it sleeps; 0 for not at all."""
    crew: Crew | None = None
    """The worker processes of the server, if it has several, which share its sessions."""

    def __post_init__(self) -> None:
        limits = {
            "queue_timeout_s": self.queue_timeout_s,
            "max_queued": self.max_queued,
            "detached_grace_s": self.detached_grace_s,
            "hold_and_wait_grace_s": self.hold_and_wait_grace_s,
            "max_resume_window_s": self.max_resume_window_s,
            "stuck_grace_s": self.stuck_grace_s,
            "max_stuck": self.max_stuck,
            "max_records": self.max_records,
            "max_record_bytes": self.max_record_bytes,
            "max_kept_records": self.max_kept_records,
            "max_kept_record_bytes": self.max_kept_record_bytes,
            "process_pool_size": self.process_pool_size,
            "max_snapshots": self.max_snapshots,
            "max_snapshot_bytes": self.max_snapshot_bytes,
        }
        for name, limit in limits.items():
            if not limit >= 0:
                raise ConfigurationError(f"{name} is at least 0, not {limit!r}")
        busy_polling.checked_limit(self.busy_poll_s)
        if self.max_operations_per_session < 1:
            raise ConfigurationError("max_operations_per_session is at least 1")
        if self.opens_per_minute is not None and not self.opens_per_minute >= 1:
            raise ConfigurationError("opens_per_minute is at least 1, or None for any number")

    def limits(self) -> dict[str, float]:
        """Returns its bounds, by name, for metrics."""
        told = {**asdict(self), "opens_per_minute": self.opens_per_minute or math.inf}
        return {
            name: float(limit)
            for name, limit in told.items()
            if isinstance(limit, int | float) and not isinstance(limit, bool)
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegisteredEnvironment:
    """An environment that can be opened."""

    spec: EnvironmentSpec
    definition: EnvironmentDefinition
    factory: Callable[[], Any]
    cls: type | None
    """Its class, if that is known before one is built."""
    session_timeout_s: float | None
    close_timeout_s: float
    """How long its `close` is waited for."""
    tool_actions: Mapping[str, type[BaseModel]] | None
    """The actions by which tools are listed and called, where they are steps in disguise."""
    single_thread: bool
    default_metadata: bool
    """Whether its metadata can be told without building one."""


def register_all(
    definitions: Sequence[EnvironmentDefinition], settings: EngineSettings
) -> dict[str, RegisteredEnvironment]:
    """Checks and describes environments, by name, in their order.

    Raises:
        TypeError: a factory builds no environment.
        ConfigurationError: two have the same name, there is none, or one can never be built.
        ConcurrencyConfigurationError: more sessions are asked for than a class supports.
    """
    registered: dict[str, RegisteredEnvironment] = {}
    for definition in definitions:
        environment = register(definition, settings)
        if environment.spec.name in registered:
            raise ConfigurationError(
                f"two environments are named {environment.spec.name!r}; name one differently"
            )
        registered[environment.spec.name] = environment
    if not registered:
        raise ConfigurationError("there is no environment to serve")
    return registered


def register(definition: EnvironmentDefinition, settings: EngineSettings) -> RegisteredEnvironment:
    """Checks and describes an environment.

    Raises:
        ConfigurationError: it can never be built, or a setting makes no sense.
    """
    factory = definition.factory
    if not callable(factory):
        raise TypeError(
            "an environment is handed in as its class or a function that builds one, not as "
            f"{type(factory).__name__}"
        )
    name = definition.name or adapt.environment_name(factory)
    cls = adapt.factory_class(factory)
    check_buildable(factory, cls)
    asked = _asked_sessions(definition, settings)
    shape = None if cls is None else adapt.shape_of(cls)
    if shape is None and asked is not None and asked > 1:
        shape = _look(factory)
    concurrent = shape is not None and shape.concurrent_sessions
    if asked is not None and asked > 1 and not concurrent:
        raise ConcurrencyConfigurationError(_class_name(shape, factory), asked)
    spec = _describe(
        definition,
        name,
        shape,
        session_limit=asked or (_share(DEFAULT_SESSIONS, settings) if concurrent else 1),
        isolation=_isolation(definition, settings, shape),
        snapshots=shape is not None and shape.can_be_saved and settings.max_snapshots > 0,
    )
    timeout_s = definition.session_timeout_s
    return RegisteredEnvironment(
        spec=spec,
        definition=definition,
        factory=factory,
        cls=cls,
        session_timeout_s=settings.session_timeout_s if timeout_s is None else timeout_s,
        close_timeout_s=_close_timeout_s(spec, settings),
        tool_actions=tool_action_types(definition.action_type),
        single_thread=shape is not None and shape.single_thread,
        default_metadata=cls is not None and shape is not None and shape.default_metadata,
    )


def _close_timeout_s(spec: EnvironmentSpec, settings: EngineSettings) -> float:
    if settings.close_timeout_s is not None:
        return settings.close_timeout_s
    return max(LEAST_CLOSE_TIMEOUT_S, spec.budgets.close_s or 0.0)


def _asked_sessions(definition: EnvironmentDefinition, settings: EngineSettings) -> int | None:
    for asked in (definition.max_sessions, settings.max_sessions):
        if asked is not None:
            if asked < 1:
                raise ConfigurationError(f"{asked} sessions were asked for; at least 1 is needed")
            return _share(asked, settings)
    variable = os.environ.get("MAX_CONCURRENT_ENVS", "")
    if not variable:
        return None
    if not variable.isdecimal() or int(variable) < 1:
        raise ConfigurationError(
            f"MAX_CONCURRENT_ENVS is {variable!r}; it has to be a number of at least 1"
        )
    return _share(int(variable), settings)


def _share(limit: int, settings: EngineSettings) -> int:
    """Returns what of a server's sessions is for this process."""
    return limit if settings.crew is None else settings.crew.share(limit)


def _isolation(
    definition: EnvironmentDefinition, settings: EngineSettings, shape: Shape | None
) -> str:
    asked = definition.isolation or settings.isolation
    if asked is not None and asked not in adapt.ISOLATIONS:
        raise ConfigurationError(
            f"isolation is {asked!r}; it may be {', '.join(sorted(adapt.ISOLATIONS))}"
        )
    isolation = asked or ("thread" if shape is None else shape.isolation)
    on_loop = shape is not None and shape.on_loop
    return "async" if on_loop and isolation != "process" else isolation


def _look(factory: Callable[[], Any]) -> Shape:
    """Builds an instance to see its class, and closes it."""
    environment = factory()
    shape = adapt.shape_of_instance(environment)
    if shape.close is not None and not shape.close.asynchronous:
        shape.close.call(environment)
    return shape


def _class_name(shape: Shape | None, factory: Callable[[], Any]) -> str:
    return adapt.factory_name(factory) if shape is None else shape.cls.__name__


def _describe(
    definition: EnvironmentDefinition,
    name: str,
    shape: Shape | None,
    *,
    session_limit: int,
    isolation: str,
    snapshots: bool,
) -> EnvironmentSpec:
    has_tools = shape is not None and shape.has_tools
    return EnvironmentSpec(
        name=name,
        factory_name=adapt.factory_name(definition.factory),
        action_reader=action_reader(definition.action_type, has_tools=has_tools),
        observation_type=definition.observation_type,
        reset_observation_type=definition.reset_observation_type or definition.observation_type,
        state_type=definition.state_type,
        mode=definition.mode,
        concurrent_sessions=shape is not None and shape.concurrent_sessions,
        session_limit=session_limit,
        isolation=isolation,
        requires_reset=shape is not None and shape.requires_reset,
        has_tools=has_tools,
        mcp_style=not has_tools and tool_action_types(definition.action_type) is not None,
        has_tasks=shape is not None and bool(shape.tasks),
        snapshots=snapshots,
        budgets=Budgets() if shape is None else shape.budgets,
    )


def action_reader(action_type: Any, *, has_tools: bool = False) -> ActionReader:
    """Makes the reader of an action class, with the tool actions that it takes besides."""
    by_type: Mapping[str, type[BaseModel]] | None = tool_action_types(action_type)
    if by_type is None and _named(action_type, "Action"):
        by_type = _tool_actions_beside(action_type)
    if by_type is None and has_tools and isinstance(action_type, type):
        # But for the one, if any, that it derives from: its own fields are read then.
        beside = {
            name: model
            for name, model in _tool_actions_beside(action_type).items()
            if not issubclass(action_type, model)
        }
        return ActionReader(action_type, by_type=beside, declared=True)
    return ActionReader(action_type, by_type=by_type)


def tool_action_types(action_type: Any) -> Mapping[str, type[BaseModel]] | None:
    """Returns both tool actions if a class is exactly one of them, of ours or the reference's."""
    if _named(action_type, "CallToolAction") or _named(action_type, "ListToolsAction"):
        return _tool_actions_beside(action_type)
    return None


def _named(action_type: Any, name: str) -> bool:
    """Tells whether a class is the framework's of that name, ours or the reference's."""
    ours = {"Action": Action, **{cls.__name__: cls for cls in TOOL_ACTIONS.values()}}
    if action_type is ours[name]:
        return True
    module = REFERENCE_TYPES if name == "Action" else REFERENCE_TOOL_TYPES
    return (
        isinstance(action_type, type)
        and action_type.__module__ == module
        and action_type.__name__ == name
    )


def _tool_actions_beside(action_type: type) -> Mapping[str, type[BaseModel]]:
    """Returns the tool actions of the framework that a class derives from."""
    modules = {base.__module__ for base in action_type.__mro__}
    if modules.isdisjoint((REFERENCE_TYPES, REFERENCE_TOOL_TYPES)):
        return TOOL_ACTIONS
    module = sys.modules.get(REFERENCE_TOOL_TYPES) or importlib.import_module(REFERENCE_TOOL_TYPES)
    return {"list_tools": module.ListToolsAction, "call_tool": module.CallToolAction}
