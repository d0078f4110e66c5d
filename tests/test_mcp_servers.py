"""Servers of other packages as a source of tools, whatever versions are installed here.

Other versions are tried in the environment of the reference, by the same file.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from openenv_grpc.errors import ClientCapabilityError, InvalidArgumentsError, ToolNotFoundError
from openenv_grpc.mcp_servers import ServerSession, open_session
from openenv_grpc.tools.asking import asking
from tests.mcp_packages import SERVERS, context_class, fastmcp_server, major
from tests.tools.test_asking import Answering

MakeServer = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keeps these packages from printing the tracebacks of tools that fail on purpose."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(params=SERVERS.values(), ids=SERVERS.keys())
def make_server(request: pytest.FixtureRequest) -> MakeServer:
    made: MakeServer = request.param
    return made


async def test_tools_are_described_as_mcp_does(make_server: MakeServer) -> None:
    async with open_session(make_server()) as session:
        tools = await session.list_tools()

    assert [tool.name for tool in tools] == ["add", "boom", "nap", "record"]
    assert tools[0].description == "Add two integers."
    assert tools[0].input_schema["required"] == ["a", "b"]
    assert tools[0].output_schema is not None
    assert tools[0].output_schema["properties"]["result"]["type"] == "integer"


async def test_what_is_no_object_is_unwrapped_as_data(make_server: MakeServer) -> None:
    async with open_session(make_server()) as session:
        answer = await session.call_tool("add", {"a": 1, "b": 2})

    assert answer.content == [{"type": "text", "text": "3"}]
    assert answer.structured_content == {"result": 3}
    assert answer.data == 3
    assert not answer.is_error


async def test_an_object_is_the_data(make_server: MakeServer) -> None:
    async with open_session(make_server()) as session:
        answer = await session.call_tool("record", {})

    assert answer.data == answer.structured_content == {"k": [1, 2], "s": "t"}


async def test_a_tool_that_raises_answers_so(make_server: MakeServer) -> None:
    async with open_session(make_server()) as session:
        answer = await session.call_tool("boom", {"reason": "r"})

    assert answer.is_error
    assert "boom" in answer.text()
    assert answer.data is None


async def test_a_tool_that_is_not_there_is_not_found(make_server: MakeServer) -> None:
    async with open_session(make_server()) as session:
        with pytest.raises(ToolNotFoundError) as raised:
            await session.call_tool("nosuch", {})

    assert raised.value.message == "Unknown tool: 'nosuch'"


@pytest.mark.parametrize(
    ("arguments", "path"), [({"a": "x", "b": 1}, "/a"), ({"a": 1}, "/b")], ids=["type", "missing"]
)
async def test_arguments_that_do_not_fit_are_told_apart_from_a_failure(
    make_server: MakeServer, arguments: dict[str, Any], path: str
) -> None:
    async with open_session(make_server()) as session:
        with pytest.raises(
            InvalidArgumentsError, match="Invalid arguments for tool 'add'"
        ) as raised:
            await session.call_tool("add", arguments)

    assert [violation.path for violation in raised.value.violations] == [path]


async def test_a_tool_that_fails_to_validate_something_itself_has_failed(
    make_server: MakeServer,
) -> None:
    def odd() -> int:
        from pydantic import TypeAdapter

        return TypeAdapter(int).validate_python("x")

    async with open_session(make_server({"odd": odd})) as session:
        answer = await session.call_tool("odd", {})

    assert answer.is_error


async def test_a_tool_that_is_added_later_is_found(make_server: MakeServer) -> None:
    server = make_server()

    async with open_session(server) as session:
        await session.list_tools()
        server.tool(name="late")(lambda: 5)
        answer = await session.call_tool("late", {})

    assert answer.text() == "5"


@pytest.mark.skipif(major("fastmcp") < 3, reason="needs the session state of fastmcp 3")
async def test_what_a_tool_keeps_in_its_session_stays_there() -> None:
    context: Any = importlib.import_module("fastmcp").Context

    async def count(ctx: Any) -> int:
        number: int = (await ctx.get_state("number") or 0) + 1
        await ctx.set_state("number", number)
        return number

    count.__annotations__["ctx"] = context
    server = fastmcp_server({"count": count})

    async with open_session(server) as first, open_session(server) as second:
        counted = [
            (await session.call_tool("count", {})).data for session in (first, first, second)
        ]

    assert counted == [1, 2, 1]


async def test_a_low_level_server_is_a_server_too() -> None:
    async with open_session(low_level_server()) as session:
        tools = await session.list_tools()
        answer = await session.call_tool("echo", {"text": "hi"})

    assert [tool.name for tool in tools] == ["echo", "shout"]
    assert answer.text() == "hi"


def low_level_server() -> Any:
    """Makes a server that lists its tools on two pages."""
    types: Any = importlib.import_module("mcp.types")
    lowlevel: Any = importlib.import_module("mcp.server.lowlevel")
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    def page(cursor: str | None) -> Any:
        fields = {"name": "shout" if cursor else "echo", "inputSchema": schema}
        more = {} if cursor else {"nextCursor": "2"}
        return types.ListToolsResult.model_validate({"tools": [fields], **more})

    def answer(arguments: dict[str, Any]) -> Any:
        return types.CallToolResult(content=[types.TextContent(type="text", **arguments)])

    if major("mcp") >= 2:

        async def list_page(context: Any, params: Any) -> Any:
            return page(params.cursor if params else None)

        async def call(context: Any, params: Any) -> Any:
            return answer(params.arguments)

        return lowlevel.Server("low", on_list_tools=list_page, on_call_tool=call)

    server = lowlevel.Server("low")

    async def list_request(request: Any) -> Any:
        return page(request.params.cursor if request.params else None)

    list_request.__annotations__["request"] = types.ListToolsRequest  # by which it is recognised
    server.list_tools()(list_request)

    @server.call_tool()
    async def _call(name: str, arguments: dict[str, Any]) -> Any:
        return answer(arguments)

    return server


@pytest.mark.parametrize(
    "server", [object(), {}, "http://127.0.0.1:1/mcp"], ids=["object", "dictionary", "url"]
)
def test_anything_else_is_refused(server: object) -> None:
    with pytest.raises(TypeError, match="has to be a server of the package `mcp` or `fastmcp`"):
        open_session(server)


class Order(BaseModel):
    amount: int


OFFERED = {
    "elicitation/create": {"action": "accept", "content": {"amount": 2}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Fine tea"},
        "model": "m",
    },
    "roots/list": {"roots": [{"uri": "file:///work"}]},
}


async def ordered(ctx: Any) -> str:
    """Asks the user."""
    answer = await ctx.elicit("How many?", Order)
    return f"{answer.action} {answer.data.amount}"


async def rooted(ctx: Any) -> str:
    """Asks the client."""
    listed = await (ctx.list_roots() if hasattr(ctx, "list_roots") else ctx.session.list_roots())
    return str((listed if isinstance(listed, list) else listed.roots)[0].uri)


@asynccontextmanager
async def asking_server(make_server: MakeServer, function: Any) -> AsyncIterator[ServerSession]:
    server = make_server({})
    function.__annotations__["ctx"] = context_class(server)
    server.tool(name="ask")(function)
    async with open_session(server) as session:
        yield session


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize(
    ("function", "told"), [(ordered, "accept 2"), (rooted, "file:///work")], ids=["form", "roots"]
)
async def test_a_servers_tool_asks_the_client_of_its_caller(
    make_server: MakeServer, function: Any, told: str
) -> None:
    async with asking_server(make_server, function) as session, asyncio.timeout(30):
        answer = await asking(Answering(OFFERED), lambda: session.call_tool("ask", {}))
        assert answer.text() == told


@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_a_servers_tool_whose_caller_has_no_client_is_refused(
    make_server: MakeServer,
) -> None:
    async with asking_server(make_server, ordered) as session, asyncio.timeout(30):
        with pytest.raises(ClientCapabilityError, match="elicitation"):
            await session.call_tool("ask", {})


@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_a_servers_tool_that_gets_no_answer_has_failed(make_server: MakeServer) -> None:
    class Gone(Answering):
        def ask(self, questions: Any) -> None:
            for question in questions:
                question.fail("the client is gone")

    async with asking_server(make_server, ordered) as session, asyncio.timeout(30):
        answer = await asking(Gone({}), lambda: session.call_tool("ask", {}))
        assert answer.is_error
        assert "the client is gone" in answer.text()
