from __future__ import annotations

import pytest

from openenv_bridge import errors
from openenv_grpc.errors import (
    ERROR_TYPES,
    EnvironmentFailedError,
    OpenEnvError,
    Reason,
    SessionCapacityError,
)


def test_the_table_covers_every_reason() -> None:
    assert set(errors.PROJECTIONS) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_every_reason_has_codes_of_its_doors(reason: Reason) -> None:
    projection = errors.PROJECTIONS[reason]
    assert projection.ws_code in {
        "CAPACITY_REACHED",
        "EXECUTION_ERROR",
        "FACTORY_ERROR",
        "SESSION_ERROR",
        "VALIDATION_ERROR",
    }
    assert -32700 <= projection.rpc_code <= -32000
    assert 400 <= projection.http_status <= 599


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_an_error_that_takes_the_session_along_closes_the_socket(reason: Reason) -> None:
    error: OpenEnvError = ERROR_TYPES[reason]("gone", session_lost=True)
    assert errors.ws_code(error) in errors.CLOSING_CODES


def test_an_environments_exception_is_told_in_its_own_words() -> None:
    error = EnvironmentFailedError(
        "the environment raised ValueError: bad", metadata={"exception_text": "bad"}
    )
    assert errors.message(error, None) == "bad"


def test_a_redacted_exception_is_told_in_ours() -> None:
    assert errors.message(EnvironmentFailedError("it failed"), None) == "it failed"


def test_a_full_server_is_told_in_the_references_words() -> None:
    error = SessionCapacityError(
        "all 2 sessions are in use", metadata={"active_sessions": "2", "max_sessions": "2"}
    )
    assert errors.message(error, None) == (
        "Server at capacity: 2/2 sessions active. Cannot accept new connections."
    )
    assert errors.facts(error, None) == {"active_sessions": 2, "max_sessions": 2}
