"""JSON and arrays to Python values, models and back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from openenv_grpc.errors import (
    Effect,
    InvalidActionError,
    InvalidRequestError,
    UnserializableResultError,
)
from openenv_grpc.serialization import (
    BESIDE,
    ActionReader,
    dump_json,
    error_details,
    json_kind,
    json_pointer,
    json_schema,
    model_fields,
    model_type,
    parse_json,
    parse_json_object,
    to_plain,
    violations,
)
from openenv_grpc.tools import TOOL_ACTIONS, CallToolAction, ListToolsAction
from openenv_grpc.types import Action, Observation

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Colour(enum.Enum):
    RED = "red"


class Inner(BaseModel):
    a: int = 1


@dataclasses.dataclass
class Plain:
    b: int = 2


class Move(Action):
    column: int
    note: str = ""

    @field_validator("note")
    @classmethod
    def _not_forbidden(cls, note: str) -> str:
        if note == "forbidden":
            raise ValueError("note is forbidden")
        return note


@given(JSON)
def test_what_json_can_carry_comes_back_equal(value: Any) -> None:
    assert parse_json(dump_json(value)) == to_plain(value) == value


@pytest.mark.parametrize(
    "text", ["", "{", "{bad", '{"a": 1,}', "[" * 10_000 + "]" * 10_000, b"\xff"], ids=repr
)
def test_what_is_no_json_is_an_invalid_request(text: str | bytes) -> None:
    with pytest.raises(InvalidRequestError, match="the frame is not valid JSON"):
        parse_json(text, what="frame")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("null", "null"),
        ("true", "a boolean"),
        ("1", "a number"),
        ('"a"', "a string"),
        ("[]", "an array"),
    ],
)
def test_what_is_no_object_is_refused_by_its_kind(text: str, kind: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"has to be a JSON object, not {kind}"):
        parse_json_object(text)


def test_an_object_is_read() -> None:
    assert parse_json_object('{"a": 1}') == {"a": 1}
    assert json_kind({}) == "an object"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"abc", '"abc"'),
        (datetime.datetime(2020, 1, 2, 3, 4, 5), '"2020-01-02T03:04:05"'),
        ({7}, "[7]"),
        ((1, 2), "[1,2]"),
        (decimal.Decimal("1.20"), '"1.20"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Colour.RED, '"red"'),
        (Inner(), '{"a":1}'),
        (Plain(), '{"b":2}'),
        ({1: "one"}, '{"1":"one"}'),
        (2**70, "1180591620717411303424"),
        (numpy.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        (numpy.int64(3), "3"),
        (numpy.float32(0.5), "0.5"),
        ({"deep": [numpy.bool_(True)]}, '{"deep":[true]}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_python_values_become_json(value: object, text: str) -> None:
    assert dump_json(value).decode() == text
    assert json.dumps(to_plain(value), separators=(",", ":")) == text


@pytest.mark.parametrize(
    ("non_finite", "text"),
    [("null", "[null,null,null]"), ("strings", '["NaN","Infinity","-Infinity"]')],
)
def test_numbers_that_json_lacks_are_nulls_or_strings(non_finite: Any, text: str) -> None:
    assert dump_json([math.nan, math.inf, -math.inf], non_finite=non_finite).decode() == text


def test_plain_values_keep_numbers_that_json_lacks() -> None:
    (number,) = to_plain([math.nan])

    assert math.isnan(number)


@pytest.mark.parametrize("convert", [dump_json, to_plain])
@pytest.mark.parametrize(
    "value", [object(), b"\xff", {"a": object()}], ids=["object", "bytes", "nested"]
)
def test_what_json_cannot_carry_is_said_to_have_happened(convert: Any, value: object) -> None:
    with pytest.raises(UnserializableResultError) as raised:
        convert(value)

    assert raised.value.effect is Effect.DONE


def test_fields_of_a_model_come_without_those_beside_it() -> None:
    fields = model_fields(Observation(reward=1.0, done=True, metadata={"a": 1}), beside=BESIDE)

    assert fields == {"metadata": {"a": 1}}


def test_what_dumps_like_a_model_is_one() -> None:
    class Foreign:
        def model_dump(self) -> dict[str, Any]:
            return {"reward": 1, "text": "a"}

    assert model_fields(Foreign(), beside=BESIDE) == {"text": "a"}


def test_what_does_not_dump_is_refused() -> None:
    with pytest.raises(UnserializableResultError, match="'dict' object has no attribute"):
        model_fields({"a": 1})


def test_details_of_an_error_can_be_sent() -> None:
    with pytest.raises(ValidationError) as raised:
        Move.model_validate({"column": 1, "note": "forbidden"})

    (detail,) = error_details(raised.value, url=False)
    assert detail["ctx"] == {"error": "note is forbidden"}
    assert dump_json(detail)


def test_error_details_hold_what_json_cannot_carry_as_text() -> None:
    class Odd(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def check(cls, text: str) -> str:
            raise PydanticCustomError("odd", "no good", {"why": object(), "text": text})

    with pytest.raises(ValidationError) as raised:
        Odd(text="x")
    (detail,) = error_details(raised.value, url=False)
    assert "object" in json.loads(json.dumps(detail))["ctx"]["why"]


def test_violations_point_into_the_value() -> None:
    with pytest.raises(ValidationError) as raised:
        Move.model_validate({"column": "x"})

    (violation,) = violations(raised.value)
    assert (violation.path, violation.type) == ("/column", "int_parsing")


@pytest.mark.parametrize(
    ("path", "pointer"),
    [([], ""), (["a", 0], "/a/0"), (["a/b", "c~d"], "/a~1b/c~0d")],
    ids=["whole", "nested", "escaped"],
)
def test_a_json_pointer_is_written_as_its_standard_says(
    path: list[str | int], pointer: str
) -> None:
    assert json_pointer(path) == pointer


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Move, True),
        (Move | CallToolAction, True),
        (Move | None, False),
        (int, False),
        (list[Move], False),
    ],
    ids=str,
)
def test_models_and_unions_of_models_are_recognised(annotation: Any, expected: bool) -> None:
    assert model_type(annotation) is expected


def read_text(reader: ActionReader, value: Any) -> Any:
    return reader.from_json(json.dumps(value))


def read_value(reader: ActionReader, value: Any) -> Any:
    return reader.from_value(value)


@pytest.mark.parametrize("read", [read_text, read_value])
def test_an_action_is_read(read: Any) -> None:
    assert read(ActionReader(Move), {"column": 3}) == Move(column=3)


@pytest.mark.parametrize("read", [read_text, read_value])
def test_an_action_of_several_classes_is_read(read: Any) -> None:
    reader = ActionReader(Move | CallToolAction)

    assert read(reader, {"column": 3}) == Move(column=3)
    assert read(reader, {"tool_name": "a"}) == CallToolAction(tool_name="a")


@pytest.mark.parametrize("read", [read_text, read_value])
@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        ({}, "/column", "missing"),
        ({"column": "x"}, "/column", "int_parsing"),
        ({"column": 1, "row": 2}, "/row", "extra_forbidden"),
        ({"column": 1, "note": "forbidden"}, "/note", "value_error"),
        ([], "", "model_type"),
        (None, "", "model_type"),
    ],
    ids=["missing", "wrong type", "unknown", "validator", "array", "null"],
)
def test_an_action_that_does_not_fit_is_refused(
    read: Any, value: Any, path: str, kind: str
) -> None:
    with pytest.raises(InvalidActionError, match="the action was refused") as raised:
        read(ActionReader(Move), value)

    assert raised.value.violations[0].path == path
    assert raised.value.violations[0].type == kind
    assert isinstance(raised.value.__cause__, ValidationError)


@pytest.mark.parametrize("by_type", [None, TOOL_ACTIONS], ids=["plain", "by type"])
def test_an_action_that_is_no_json_is_an_invalid_request(by_type: Any) -> None:
    with pytest.raises(InvalidRequestError, match="the action is not valid JSON"):
        ActionReader(Action, by_type=by_type).from_json("{bad")


@pytest.mark.parametrize("read", [read_text, read_value])
def test_the_type_selects_an_action_where_it_may(read: Any) -> None:
    reader = ActionReader(Action, by_type=TOOL_ACTIONS)

    assert read(reader, {"type": "list_tools"}) == ListToolsAction()
    assert read(reader, {"type": "call_tool", "tool_name": "a"}) == CallToolAction(tool_name="a")
    assert read(reader, {"metadata": {"a": 1}}) == Action(metadata={"a": 1})
    with pytest.raises(InvalidActionError):
        read(reader, {"type": "other"})


def test_the_schema_of_several_classes_names_each() -> None:
    schema = ActionReader(Move | CallToolAction).schema()

    assert set(schema["$defs"]) == {"Move", "CallToolAction"}


def test_a_field_that_json_schema_has_no_word_for_is_anything() -> None:
    class Seen(Observation):
        frame: numpy.ndarray

    described = json_schema(TypeAdapter(Seen))
    assert "frame" in described["required"]
    assert described["properties"]["frame"] == {"title": "Frame"}
