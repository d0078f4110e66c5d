"""Tools as actions and observations."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from openenv_grpc.serialization import dump_json, model_fields
from openenv_grpc.tools import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
    ToolResult,
)

RESULT = {
    "content": [{"type": "text", "text": "5", "annotations": None, "meta": None}],
    "structured_content": {"result": 5},
    "meta": None,
    "data": 5,
    "is_error": False,
}


def test_the_reserved_names_are_what_a_trainer_does() -> None:
    assert {"reset", "step", "state", "close"} == RESERVED_TOOL_NAMES


def test_actions_name_their_type_by_themselves() -> None:
    assert ListToolsAction().model_dump() == {"metadata": {}, "type": "list_tools"}
    assert CallToolAction(tool_name="add").model_dump() == {
        "metadata": {},
        "type": "call_tool",
        "tool_name": "add",
        "arguments": {},
    }


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (ListToolsAction, {"type": "call_tool"}),
        (CallToolAction, {}),
        (CallToolAction, {"tool_name": "a", "arguments": [1]}),
        (CallToolAction, {"tool_name": "a", "surprise": 1}),
        (Tool, {"name": "a", "description": "b"}),
        (ToolError, {"error_type": "bad_luck", "message": "m"}),
        (ListToolsObservation, {}),
        (CallToolObservation, {}),
    ],
)
def test_what_does_not_fit_is_refused(model: type[BaseModel], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model(**fields)


def test_a_result_is_read_as_plain_text_and_as_a_mapping() -> None:
    result = CallToolObservation(tool_name="add", result=RESULT).result

    assert str(result) == "5"
    assert result["data"] == 5
    assert result == RESULT


def test_a_result_is_sent_as_the_mapping_that_it_is() -> None:
    observation = CallToolObservation(tool_name="add", result=ToolResult(RESULT))

    assert type(model_fields(observation)["result"]) is dict
    assert b'"data":5' in dump_json(observation)


@pytest.mark.parametrize(
    "result", [None, "text", {"data": 1}, {"content": "a", "data": 1}], ids=str
)
def test_a_result_of_another_shape_stays_what_it_is(result: Any) -> None:
    kept = CallToolObservation(tool_name="a", result=result).result

    assert kept == result
    assert type(kept) is type(result)


def test_an_error_is_read_from_json() -> None:
    observation = CallToolObservation.model_validate_json(
        '{"tool_name": "a", "error": {"error_type": "timeout", "message": "m"}}'
    )

    assert observation.error == ToolError(error_type=ToolErrorType.TIMEOUT, message="m")
