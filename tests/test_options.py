from __future__ import annotations

import inspect
from typing import get_type_hints

from openenv_grpc.engine import EngineSettings
from openenv_grpc.options import EngineOptions, ServerOptions
from openenv_grpc.serving import Server


def test_the_engines_options_are_fields_of_its_settings() -> None:
    settings = get_type_hints(EngineSettings)

    assert get_type_hints(EngineOptions).items() <= settings.items()


def test_the_servers_options_are_what_it_takes() -> None:
    taken = set(inspect.signature(Server).parameters) - {"targets", "engine"}

    assert ServerOptions.__optional_keys__ == taken | EngineOptions.__optional_keys__
