"""Forms, as MCP writes them."""

from __future__ import annotations

import enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from openenv_grpc.tools.forms import form_schema


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Filled(BaseModel):
    name: str = Field(description="Of whom?", min_length=2)
    age: int | None = None
    score: float = 1.5
    sure: bool
    colour: Colour = Colour.RED
    size: Literal["s", "m"]
    only: Literal["one"]
    several: list[Colour]


def test_a_form_has_a_flat_schema_without_references() -> None:
    schema = form_schema(Filled)
    assert schema["type"] == "object"
    assert schema["required"] == ["name", "sure", "size", "only", "several"]
    fields = schema["properties"]
    assert fields["name"] == {
        "description": "Of whom?",
        "minLength": 2,
        "title": "Name",
        "type": "string",
    }
    assert fields["age"] == {"title": "Age", "type": "integer"}
    assert (fields["score"]["type"], fields["score"]["default"]) == ("number", 1.5)
    assert fields["sure"]["type"] == "boolean"
    assert (fields["colour"]["enum"], fields["colour"]["default"]) == (["red", "blue"], "red")
    assert fields["size"]["enum"] == ["s", "m"]
    assert (fields["only"]["type"], fields["only"]["enum"]) == ("string", ["one"])
    assert (fields["several"]["type"], fields["several"]["items"]["enum"]) == (
        "array",
        ["red", "blue"],
    )


class Inner(BaseModel):
    name: str


@pytest.mark.parametrize("kind", [Inner, dict[str, str], list[str], int | str, Any])
def test_a_form_with_another_field_is_refused_by_its_name(kind: Any) -> None:
    class Form(BaseModel):
        field: kind

    with pytest.raises(TypeError, match=r"Form\.field cannot be asked for"):
        form_schema(Form)
