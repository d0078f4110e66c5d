"""`call`: one session from a terminal, for as long as one command lasts."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from openenv_grpc.cli.credentials import CredentialOptions
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.output import show
from openenv_grpc.client import GenericEnvClient, MCPToolClient
from openenv_grpc.client.credentials import Credentials
from openenv_grpc.client.time_limits import MESSAGE_TIMEOUT_S
from openenv_grpc.errors import ConfigurationError, InvalidRequestError, ModeForbidsError
from openenv_grpc.serialization import parse_json_object
from openenv_grpc.types import JsonValue, StepResult

# What follows `\b` is shown as it stands.
EXAMPLES = """\b
Examples:
  openenv-grpc call grpc://127.0.0.1:50051 reset '{"seed": 7}'
  openenv-grpc call grpc://127.0.0.1:50051 step '{"message": "a"}' '{"message": "b"}'
  openenv-grpc call http://127.0.0.1:8000 tool echo_message '{"message": "hello"}'
"""


class What(enum.StrEnum):
    """What can be called."""

    RESET = "reset"
    STEP = "step"
    STATE = "state"
    TOOLS = "tools"
    TOOL = "tool"


@with_groups
def call(
    *,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="grpc://HOST:PORT, unix:PATH, http://HOST:PORT, ws://HOST:PORT or http+unix:PATH.",
        ),
    ],
    what: Annotated[
        What,
        typer.Argument(
            metavar="reset|step|state|tools|tool", help="What to do.", show_default=False
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JSON",
            help="Of reset its options, of step an action or several, of tool its name and "
            "arguments.",
            show_default=False,
        ),
    ] = None,
    reset: Annotated[
        str, typer.Option(metavar="JSON", help="Options of the reset that comes first.")
    ] = "{}",
    no_reset: Annotated[
        bool, typer.Option("--no-reset", help="Step, read or call without a reset first.")
    ] = False,
    env: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Environment of a server that has several.", show_default=False
        ),
    ] = "",
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="How long to wait for an answer.  [default: what the environment says it may "
            "take, else 60]",
        ),
    ] = None,
    by: CredentialOptions,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a line, for scripts.")
    ] = False,
) -> None:
    """Reset, step, read or call tools of an environment.

    Each command opens a session of its own and closes it. `step`, `state` and `tool` reset first,
    since there is no episode yet. An action that does not fit the environment is not sent.
    """
    given = arguments or []
    options = None if no_reset else _object(reset, "options of the reset")
    server = _Server(
        url=url,
        environment=env,
        timeout_s=timeout,
        credentials=by.credentials(),
    )
    match what:
        case What.RESET:
            texts = _take(given, 0, 1)
            work = _reset(server, _object(texts[0], "options") if texts else {})
        case What.STEP:
            actions = [_object(text, "action") for text in _take(given, 1, None)]
            work = _step(server, options, actions)
        case What.STATE:
            _take(given, 0, 0)
            work = _state(server, options)
        case What.TOOLS:
            _take(given, 0, 0)
            work = _tools(server)
        case What.TOOL:
            name, *texts = _take(given, 1, 2)
            work = _tool(server, options, name, _object(texts[0], "arguments") if texts else {})
    asyncio.run(_show_all(work, as_json=as_json))


LEAVE_S = 0.5
"""How long Ctrl-C waits for the session's end."""

ClientT = TypeVar("ClientT", GenericEnvClient, MCPToolClient)
Fields = dict[str, JsonValue]
Answers = AsyncGenerator[Fields]


async def _show_all(answers: Answers, *, as_json: bool) -> None:
    """Prints each answer as it comes, so that one which fails takes none before it along."""
    async with aclosing(answers):
        first = True
        async for answer in answers:
            show(answer, as_json=as_json, first=first)
            first = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """Where to call."""

    url: str
    environment: str
    timeout_s: float | None
    credentials: Credentials

    def client(self) -> AbstractAsyncContextManager[GenericEnvClient]:
        """Connects a client for a trainer."""
        return _connected(
            GenericEnvClient(
                base_url=self.url,
                message_timeout_s=self.timeout_s,
                queue_timeout_s=self.timeout_s or MESSAGE_TIMEOUT_S,
                environment=self.environment,
                **self.credentials,
            )
        )

    def tools(self) -> AbstractAsyncContextManager[MCPToolClient]:
        """Connects a client for an agent."""
        return _connected(
            MCPToolClient(
                base_url=self.url,
                message_timeout_s=self.timeout_s,
                queue_timeout_s=self.timeout_s or MESSAGE_TIMEOUT_S,
                environment=self.environment,
                **self.credentials,
            )
        )


@asynccontextmanager
async def _connected(client: ClientT) -> AsyncIterator[ClientT]:
    """Connects a client. Ctrl-C does not wait for the environment, which may be amid a step."""
    async with client:
        try:
            yield client
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await client.close()
            raise


async def _reset(server: _Server, options: Fields) -> Answers:
    async with server.client() as client:
        yield _told(await client.reset(**options))


async def _step(server: _Server, options: Fields | None, actions: list[Fields]) -> Answers:
    # Here, so that `--help` is quick.
    from openenv_grpc.cli.actions import check_action
    from openenv_grpc.client.catalog import describe

    described = await describe(
        server.url,
        server.environment,
        timeout_s=server.timeout_s or MESSAGE_TIMEOUT_S,
        **server.credentials,
    )
    for action in actions:
        check_action(action, described[0].schemas.get("action", {}))
    async with server.client() as client:
        if options is not None:
            await client.reset(**options)
        for action in actions:
            yield _told(await client.step(action))


async def _state(server: _Server, options: Fields | None) -> Answers:
    async with server.client() as client:
        if options is not None:
            await client.reset(**options)
        yield await client.state()


async def _tools(server: _Server) -> Answers:
    async with server.tools() as client:
        for tool in await client.list_tools():
            yield tool.model_dump()


async def _tool(server: _Server, options: Fields | None, name: str, arguments: Fields) -> Answers:
    async with server.tools() as client:
        if options is not None:
            with suppress(ModeForbidsError):  # in production tools are all there is
                await client.reset(**options)
        yield {"result": await client.call_tool(name, **arguments)}


def _told(result: StepResult[Any]) -> Fields:
    told = {"observation": result.observation, "reward": result.reward, "done": result.done}
    return {**told, "truncated": True} if result.truncated else told


def _take(given: list[str], least: int, most: int | None) -> list[str]:
    if len(given) < least:
        raise ConfigurationError("an argument is missing; see openenv-grpc call --help")
    if most is not None and len(given) > most:
        raise ConfigurationError(
            f"{given[most]!r} is one argument too many; see openenv-grpc call --help"
        )
    return given


def _object(text: str, what: str) -> Fields:
    try:
        return parse_json_object(text, what=what)
    except InvalidRequestError as error:
        raise ConfigurationError(error.message) from error
