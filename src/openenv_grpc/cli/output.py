"""What commands print: YAML for people, a JSON object a line for scripts."""

from __future__ import annotations

from collections.abc import Mapping

import typer
import yaml

from openenv_grpc.serialization import dump_json, parse_json
from openenv_grpc.types import JsonValue


def show(value: Mapping[str, JsonValue], *, as_json: bool) -> None:
    """Prints a value to standard output."""
    text = dump_json(value).decode()
    if as_json:
        typer.echo(text)
        return
    # By way of JSON, since YAML knows neither arrays nor subclasses of `dict`.
    pretty: str = yaml.safe_dump(
        parse_json(text), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )
    typer.echo(pretty.rstrip("\n"))
