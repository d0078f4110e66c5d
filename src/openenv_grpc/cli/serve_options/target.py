"""What is said of a single TARGET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.targets import Overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """Its name and its classes."""

    env_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Serve a single TARGET under this name.")
    ] = None
    action: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="Action class of a single TARGET."),
    ] = None
    observation: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="Observation class of a single TARGET."),
    ] = None
    state: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="State class of a single TARGET."),
    ] = None

    def overrides(self, target_count: int) -> Overrides:
        """Returns what comes before a target's own word.

        Raises:
            ConfigurationError: there is any, and several targets.
        """
        overrides = Overrides(
            name=self.env_name,
            action=self.action,
            observation=self.observation,
            state=self.state,
        )
        if overrides != Overrides() and target_count > 1:
            raise ConfigurationError(
                "--env-name, --action, --observation and --state are for a single TARGET"
            )
        return overrides
