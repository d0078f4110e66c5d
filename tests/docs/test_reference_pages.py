"""Pages that repeat what the code says, say the same."""

from __future__ import annotations

import re
import tomllib

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from openenv_bridge.errors import PROJECTIONS
from openenv_grpc.cli.tree import command
from openenv_grpc.errors import Effect, Reason
from openenv_grpc.wire.status import GRPC_CODES
from tests.docs.pages import ROOT, rows

ERRORS = ROOT / "docs/errors.md"
CLI = ROOT / "docs/cli.md"


def test_the_table_of_errors_is_that_of_the_code() -> None:
    shown = [
        [reason, grpc, ws, rpc, status]
        for reason, _, grpc, ws, rpc, status, _ in rows(ERRORS, "reason")
    ]

    assert shown == [
        [
            f"`{reason.name}`",
            f"`{GRPC_CODES[reason]}`",
            f"`{PROJECTIONS[reason].ws_code}`",
            str(PROJECTIONS[reason].rpc_code),
            str(PROJECTIONS[reason].http_status),
        ]
        for reason in Reason
    ]


def test_the_table_of_effects_is_that_of_the_code() -> None:
    assert [row[0] for row in rows(ERRORS, "effect")] == [f"`{effect.name}`" for effect in Effect]


@pytest.mark.parametrize("name", ["serve", "call", "info", "sessions", "drain"])
def test_the_page_of_the_command_line_has_every_option(name: str) -> None:
    group = get_command(command)
    assert isinstance(group, TyperGroup)
    declared = {
        option
        for parameter in group.commands[name].params
        for option in parameter.opts
        if option.startswith("--")
    }

    section = CLI.read_text(encoding="utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)

    assert sorted(documented) == sorted(declared | {"--help"})


def test_the_page_of_the_command_line_has_every_command() -> None:
    group = get_command(command)
    assert isinstance(group, TyperGroup)
    headings = re.findall(r"^## (.+)$", CLI.read_text(encoding="utf-8"), re.MULTILINE)

    assert headings == list(group.commands)


def test_the_drawing_of_the_layers_is_that_of_the_import_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )

    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^  (\S.*?)(?: -> v1)?  ", page.partition("```text\n")[2], re.MULTILINE)

    assert drawn == [layer.replace("openenv_grpc.", "") for layer in contract["layers"]]
