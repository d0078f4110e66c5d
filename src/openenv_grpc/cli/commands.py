"""The commands by name, each imported when it is called: `serve` starts without the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from openenv_grpc.collecting import collection_put_off

NAMES = ("serve", "call", "mcp", "info", "sessions", "drain")
"""Each is a function in the module of its name; some modules have `EXAMPLES` for its help."""


class Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds a command

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Reads the command line, for which typer imports pydantic."""
        with collection_put_off():
            return super().make_context(*arguments, **settings)


class _Commands(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


@cache
def _command(name: str) -> Any:
    with collection_put_off():
        module = vars(import_module(f"openenv_grpc.cli.{name}"))
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, epilog=module.get("EXAMPLES"))(module[name])
    return typer.main.get_command(alone)
