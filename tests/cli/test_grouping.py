from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from openenv_grpc.cli.grouping import with_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    colour: Annotated[str, typer.Option(help="What it looks like.")] = "grey"
    coats: Annotated[int, typer.Option(min=1)] = 2


def test_the_fields_of_a_group_are_options_of_the_command() -> None:
    painted: list[tuple[str, Paint]] = []

    @with_groups
    def paint(wall: Annotated[str, typer.Argument()], paint: Paint) -> None:
        """Paint a wall."""
        painted.append((wall, paint))

    app = typer.Typer()
    app.command()(paint)
    result = CliRunner().invoke(app, ["north", "--colour", "red"])

    assert result.exit_code == 0, result.output
    assert painted == [("north", Paint(colour="red", coats=2))]
