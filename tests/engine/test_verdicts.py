"""What a session refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openenv_grpc.engine import verdicts
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.types import ServerMode
from tests.engine.talking import CODEC
from tests.wire.test_operations import SPEC


@pytest.mark.parametrize("mode", ServerMode)
@pytest.mark.parametrize("kind", Kind)
def test_what_may_be_refused_is_in_doubt_and_nothing_else(kind: Kind, mode: ServerMode) -> None:
    spec = replace(SPEC, mode=mode)
    operation = Operation(kind=kind, codec=CODEC)
    refused = [
        verdicts.forbidden(operation, spec, draining=draining) is not None
        for draining in (False, True)
    ]
    assert any(refused) == (kind in verdicts.doubtful(spec))
