"""Functions as tools: schemas, arguments, calls."""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from openenv_grpc.errors import InvalidArgumentsError
from openenv_grpc.tools import (
    BoundTool,
    Media,
    ToolAnswer,
    ToolFunction,
    ToolOutcome,
    tool,
)
from openenv_grpc.tools.signatures import split_docstring
from openenv_grpc.types import JsonValue, ServerMode


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Plain:
    """A type that pydantic does not know."""


def bound(function: Callable[..., Any], **options: Any) -> BoundTool:
    return ToolFunction(function, **options).bound(function)


def properties(function: Callable[..., Any]) -> dict[str, JsonValue]:
    return bound(function).info().input_schema["properties"]


def answer(function: Callable[..., Any], **arguments: Any) -> ToolAnswer:
    answered = bound(function).answer(arguments)
    assert isinstance(answered, ToolAnswer)
    return answered


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Board:
    def __init__(self) -> None:
        self.moves: list[Point] = []

    @tool
    def move(self, to: Point) -> int:
        """Moves."""
        self.moves.append(to)
        return len(self.moves)

    @tool(name="say_hello", description="Greets.", title="Say hello", mode="simulation")
    def greet(self) -> str:
        return "hello"

    @tool
    @staticmethod
    def double(number: int) -> int:
        """Doubles."""
        return 2 * number


def tool_of(board: Board, name: str) -> BoundTool:
    made = vars(Board)[name]
    assert isinstance(made, ToolFunction)
    return made.bound(made.__get__(board))


def test_a_tool_is_described_by_signature_and_docstring() -> None:
    info = bound(add).info()

    assert (info.name, info.description, info.title) == ("add", "Add two integers.", None)
    assert info.input_schema == {
        "additionalProperties": False,
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "type": "object",
    }
    assert info.output_schema == {
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
        "type": "object",
        "x-fastmcp-wrap-result": True,
    }


def test_a_tool_without_arguments_has_an_empty_schema() -> None:
    def look() -> None: ...

    assert bound(look).info().input_schema == {
        "additionalProperties": False,
        "properties": {},
        "type": "object",
    }


def test_annotations_of_every_kind_make_schemas() -> None:
    def many(
        text: Annotated[str, Field(description="What to say", max_length=5)],
        choice: Literal["a", "b"],
        either: int | str,
        perhaps: float | None = None,
        numbers: list[int] = [],  # noqa: B006  # each call gets a copy
        anything: Any = 1,
        bare="x",  # type: ignore[no-untyped-def]  # that is the point
    ) -> None: ...

    assert properties(many) == {
        "text": {"type": "string", "description": "What to say", "maxLength": 5},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "perhaps": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        "numbers": {"type": "array", "items": {"type": "integer"}, "default": []},
        "anything": {"default": 1},
        "bare": {"default": "x"},
    }


def test_models_and_enums_are_defined_beside_the_properties() -> None:
    def paint(at: Point, colour: Colour = Colour.RED) -> None: ...

    schema = bound(paint).info().input_schema

    assert schema["properties"]["at"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert schema["required"] == ["at"]


def test_the_docstring_describes_arguments_that_nothing_else_describes() -> None:
    def search(query: str, limit: Annotated[int, Field(description="At most")] = 3) -> None:
        """Searches.

        Args:
            query: What to look for,
                on one line.
            limit: Not this text.
            gone: No such argument.
        """

    assert properties(search)["query"]["description"] == "What to look for, on one line."
    assert properties(search)["limit"]["description"] == "At most"
    assert bound(search).info().description == "Searches."


def test_keywords_of_any_name_are_allowed_where_the_function_takes_them() -> None:
    def log(**facts: int) -> dict[str, int]:
        return facts

    assert bound(log).info().input_schema["additionalProperties"] == {"type": "integer"}
    assert answer(log, a="1").data == {"a": 1}


@pytest.mark.parametrize(
    "annotation",
    [None, Any, object, bytes, ToolOutcome, Media, Plain, inspect.Signature.empty],
    ids=str,
)
def test_a_return_annotation_that_tells_nothing_makes_no_output_schema(annotation: Any) -> None:
    def look() -> None: ...

    look.__annotations__ = {"return": annotation}
    if annotation is inspect.Signature.empty:
        look.__annotations__ = {}

    assert bound(look).info().output_schema is None


def test_an_object_is_its_own_output_schema() -> None:
    def where() -> Point:
        return Point(x=1)

    assert bound(where).info().output_schema == {
        "properties": {"x": {"type": "integer"}, "y": {"default": 0, "type": "integer"}},
        "required": ["x"],
        "title": "Point",
        "type": "object",
    }
    assert answer(where).structured_content == {"x": 1, "y": 0}


def test_what_may_be_an_object_or_not_is_wrapped_in_any_case() -> None:
    def where() -> Point | None:
        return Point(x=1)

    schema = bound(where).info().output_schema

    assert schema is not None
    assert schema["properties"]["result"]["anyOf"][0] == {"$ref": "#/$defs/Point"}
    assert "Point" in schema["$defs"]
    assert answer(where).structured_content == {"result": {"x": 1, "y": 0}}


def test_arguments_are_converted() -> None:
    def show(at: Point, colour: Colour, count: int = 2) -> list[Any]:
        return [type(at).__name__, colour.name, count]

    assert answer(show, at={"x": "1"}, colour="blue").data == ["Point", "BLUE", 2]


@pytest.mark.parametrize(
    ("arguments", "path", "kind"),
    [
        ({"a": 1}, "/b", "missing_argument"),
        ({"a": "x", "b": 1}, "/a", "int_parsing"),
        ({"a": 1, "b": 2, "c": 3}, "/c", "unexpected_keyword_argument"),
    ],
    ids=["missing", "wrong type", "unknown"],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: dict[str, Any], path: str, kind: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match="Invalid arguments for tool 'add'") as raised:
        bound(add).answer(arguments)

    (violation,) = raised.value.violations
    assert (violation.path, violation.type) == (path, kind)


def test_a_default_that_can_change_is_not_shared_between_calls() -> None:
    def collect(into: list[int] = []) -> list[int]:  # noqa: B006  # that is the point
        into.append(1)
        return into

    made = bound(collect)

    assert [made.answer({}), made.answer({})] == [answer(collect), answer(collect)]


def test_what_a_tool_raises_is_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    def boom(reason: str) -> str:
        raise ValueError(f"boom: {reason}")

    with caplog.at_level(logging.DEBUG, logger="openenv_grpc"):
        answered = answer(boom, reason="r")

    assert answered.is_error
    assert answered.text() == "Error calling tool 'boom': boom: r"
    assert "tool failed tool=boom" in caplog.text


def test_an_error_for_arguments_inside_a_tool_is_the_tools_failure() -> None:
    def inner() -> None:
        bound(add).answer({})

    assert answer(inner).is_error


def test_a_result_that_cannot_be_sent_is_a_failure() -> None:
    def odd() -> object:
        return object()

    assert answer(odd).text().startswith("Error calling tool 'odd': Unable to serialize")


async def test_an_asynchronous_tool_answers_later() -> None:
    async def slow(a: int) -> int:
        return a

    answered = bound(slow).answer({"a": 1})

    assert not isinstance(answered, ToolAnswer)
    assert (await answered).data == 1


async def test_what_an_asynchronous_tool_raises_is_its_answer() -> None:
    async def slow() -> int:
        raise TimeoutError("too late")

    answered = bound(slow).answer({})

    assert not isinstance(answered, ToolAnswer)
    assert (await answered).text() == "Error calling tool 'slow': too late"


def test_a_method_under_the_decorator_is_still_a_method() -> None:
    board = Board()

    assert board.move(Point(x=1)) == 1
    assert board.greet() == "hello"
    assert board.double(2) == 4
    assert Board.move.__doc__ == "Moves."


def test_a_tool_of_an_object_acts_on_that_object() -> None:
    first, second = Board(), Board()

    tool_of(first, "move").answer({"to": {"x": 5}})

    assert first.moves == [Point(x=5)]
    assert second.moves == []
    assert "self" not in tool_of(first, "move").info().input_schema["properties"]
    assert tool_of(first, "double").info().input_schema["required"] == ["number"]


def test_the_decorator_can_say_what_the_function_does_not() -> None:
    made = tool_of(Board(), "greet")
    info = made.info()

    assert (info.name, info.description, info.title) == ("say_hello", "Greets.", "Say hello")
    assert made.function.mode is ServerMode.SIMULATION


def test_the_decorator_works_on_plain_functions() -> None:
    assert tool(add)(1, 2) == 3


def test_there_are_no_other_modes() -> None:
    with pytest.raises(ValueError, match="not 'training'"):
        tool(mode="training")(add)  # type: ignore[call-overload]  # that is the point


def only_by_position(a: int, /) -> None: ...


def any_number(*numbers: int) -> None: ...


@pytest.mark.parametrize("function", [only_by_position, any_number])
def test_arguments_without_a_name_cannot_be_given_by_an_agent(
    function: Callable[..., None],
) -> None:
    with pytest.raises(TypeError, match="tools take their arguments by name"):
        bound(function).info()


@pytest.mark.parametrize(
    ("docstring", "description", "arguments"),
    [
        ("", "", {}),
        ("Does it.", "Does it.", {}),
        (
            "Does it.\n\nArgs:\n    a: One.\n    b (int): Two.",
            "Does it.",
            {"a": "One.", "b": "Two."},
        ),
        (
            "Does it.\n\nMore.\n\nArgs:\n    a: One,\n        still one: yes.\n\nReturns:\n  2",
            "Does it.\n\nMore.\n\nReturns:\n  2",
            {"a": "One, still one: yes."},
        ),
        ("Args:\n    a: One.", "Args:\n    a: One.", {}),
    ],
    ids=["empty", "no arguments", "arguments", "more sections", "nothing else"],
)
def test_a_docstring_is_split(docstring: str, description: str, arguments: dict[str, str]) -> None:
    assert split_docstring(docstring) == (description, arguments)
