"""What commands print: YAML and tables for people, a JSON object a line for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from openenv_grpc.serialization import dump_json, parse_json
from openenv_grpc.types import JsonValue


def show(value: Mapping[str, JsonValue], *, as_json: bool, first: bool = True) -> None:
    """Prints a value to standard output; for people, with `---` before all but the first."""
    text = dump_json(value).decode()
    if as_json:
        typer.echo(text)
        return
    if not first:
        typer.echo("---")
    import yaml  # which a server has no use for

    # By way of JSON, since YAML knows neither arrays nor subclasses of `dict`.
    pretty: str = yaml.safe_dump(
        parse_json(text), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )
    typer.echo(pretty.rstrip("\n"))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows in columns as wide as they need to be."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
