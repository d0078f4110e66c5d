"""State that an author names, as bytes and back."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel, Field, PrivateAttr

from openenv_grpc.engine import declared
from openenv_grpc.engine.adapt import shape_of
from openenv_grpc.types import Action, Observation, State

if TYPE_CHECKING:
    from collections.abc import Sized


class Colour(enum.Enum):
    WHITE = "white"
    BLACK = "black"


@dataclasses.dataclass
class Piece:
    name: str
    place: tuple[int, int] = (0, 0)


class Board(BaseModel):
    pieces: list[Piece] = Field(default_factory=list, alias="Pieces")
    turn: Colour = Colour.WHITE
    seen: dict[int, set[str]] = Field(default_factory=dict)


class BigBoard(Board):
    size: int = 19


class Hidden(BaseModel):
    shown: int = 0
    unshown: int = Field(default=0, exclude=True)
    _private: int = PrivateAttr(default=0)


class Game:
    SNAPSHOT_FIELDS = (
        "board", "piece", "moves", "colour", "frame", "grid", "plain", "score", "state", "raw",
    )  # fmt: skip

    board: Board
    piece: Piece
    moves: deque[tuple[int, str]]
    colour: Colour | None
    frame: NDArray[np.float32]
    state: State
    raw: bytes
    score = 0.5
    unrelated: Sized

    def reset(self) -> Observation:
        return Observation()

    def step(self, action: Action) -> Observation:
        return Observation()


NAMES = Game.SNAPSHOT_FIELDS


def again(game: Game) -> Game:
    """Makes another of it."""
    other = Game()
    declared.read(other, Game, NAMES, declared.write(game, Game, NAMES))
    return other


VALUES: dict[str, tuple[str, Any]] = {
    "model": (
        "board",
        Board(Pieces=[Piece("king", (1, 2))], turn=Colour.BLACK, seen={3: {"a", "b"}, 1: {"c"}}),
    ),
    "dataclass": ("piece", Piece("queen")),
    "sequence of tuples": ("moves", deque([(1, "a"), (2, "b")])),
    "enum": ("colour", Colour.BLACK),
    "none": ("colour", None),
    "state with fields of its own": ("state", State(step_count=3, level=7)),  # type: ignore[call-arg]
    "bytes": ("raw", b"text"),
    "plain": ("plain", {"b": [1, 2.5, True, None, "x"], "a": {}}),
    "infinity": ("score", -math.inf),
}


@pytest.mark.parametrize(("name", "value"), VALUES.values(), ids=VALUES.keys())
def test_data_comes_back_as_it_was(name: str, value: Any) -> None:
    game = Game()
    setattr(game, name, value)
    assert getattr(again(game), name) == value
    assert type(getattr(again(game), name)) is type(value)


def test_order_and_nan_come_back() -> None:
    game = Game()
    game.plain = {"b": math.nan, "a": 1}  # type: ignore[attr-defined]
    plain = again(game).plain  # type: ignore[attr-defined]
    assert list(plain) == ["b", "a"]
    assert math.isnan(plain["b"])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", ">u2", "complex64"])
def test_arrays_come_back_and_can_be_written_to(dtype: str) -> None:
    game = Game()
    game.frame = np.arange(6, dtype="float32").reshape(2, 3)
    game.grid = [{"cells": np.ones((2, 0, 3), dtype)}]  # type: ignore[attr-defined]
    other = again(game)
    assert other.frame.tolist() == [[0, 1, 2], [3, 4, 5]]
    cells = other.grid[0]["cells"]  # type: ignore[attr-defined]
    assert (cells.dtype, cells.shape) == (np.dtype(dtype), (2, 0, 3))
    other.frame[0, 0] = 9
    assert game.frame[0, 0] == 0


def test_what_is_not_set_stays_so() -> None:
    other = Game()
    other.piece = Piece("king")
    other.score = 3.0
    declared.read(other, Game, NAMES, declared.write(Game(), Game, NAMES))
    assert not hasattr(other, "piece")
    assert other.score == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plain", (1, 2)),
        ("plain", {1: 2}),
        ("plain", Piece("king")),
        ("plain", State()),
        ("plain", object()),
        ("plain", {"$array": [1]}),
        ("plain", np.array([object()])),
        ("board", BigBoard()),
        ("board", "no board"),
        ("raw", b"\xff"),
        ("colour", "white"),
    ],
    ids=repr,
)
def test_what_would_not_come_back_is_refused(name: str, value: Any) -> None:
    game = Game()
    setattr(game, name, value)
    with pytest.raises(TypeError, match=f"attribute '{name}' of Game cannot be saved"):
        declared.write(game, Game, NAMES)


@pytest.mark.parametrize("harmless", [True, False])
def test_fields_that_a_model_hides_are_not_lost_silently(harmless: bool) -> None:
    class Secretive(Game):
        hidden: Hidden

    Secretive.__annotations__["hidden"] = Hidden
    game = Secretive()
    game.hidden = Hidden(shown=1)
    if harmless:
        assert declared.write(game, Secretive, ("hidden",))
        return
    for changed in (Hidden(unshown=1), Hidden()):
        game.hidden = changed
        if changed.unshown == 0:
            changed._private = 1
        with pytest.raises(TypeError, match="come back as something else"):
            declared.write(game, Secretive, ("hidden",))


def test_names_have_to_be_a_list() -> None:
    class Wrong(Game):
        SNAPSHOT_FIELDS = "board"  # type: ignore[assignment]

    with pytest.raises(TypeError, match="list of attributes' names"):
        shape_of(Wrong)
