from __future__ import annotations

import json

import pytest
from gymnasium import spaces

from openenv_grpc.errors import ConfigurationError, ProtocolViolationError
from openenv_grpc.gymnasium.descriptions import describe, read_space
from tests.gymnasium.environments import EVERYTHING


@pytest.mark.parametrize("name", EVERYTHING.spaces)
def test_a_space_comes_back_from_json_as_it_was(name: str) -> None:
    space = EVERYTHING.spaces[name]
    read = read_space(json.loads(json.dumps(describe(space), allow_nan=False)))
    assert read == space
    assert read.dtype == space.dtype


def test_a_space_that_cannot_be_served_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Sequence space cannot be served"):
        describe(spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]))


@pytest.mark.parametrize(
    "described", [None, {}, {"type": "Graph"}, {"type": "Discrete", "n": -1, "start": 0}]
)
def test_what_describes_no_space_is_a_broken_schema(described: object) -> None:
    with pytest.raises(ProtocolViolationError, match="a space that is none"):
        read_space(described)
