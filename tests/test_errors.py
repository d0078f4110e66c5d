"""Errors: one for each reason, and what they carry."""

from __future__ import annotations

import json

import pytest

from openenv_grpc import errors
from openenv_grpc.errors import (
    ERROR_TYPES,
    ConcurrencyConfigurationError,
    DeadlineExceededError,
    Effect,
    InvalidActionError,
    MissingDependencyError,
    OpenEnvError,
    Reason,
    UnavailableError,
    Violation,
)


def test_every_reason_has_one_error() -> None:
    assert set(ERROR_TYPES) == set(Reason)
    ours = [each for each in OpenEnvError.__subclasses__() if each.__module__ == errors.__name__]
    assert len(ours) == len(Reason)


def test_an_error_says_nothing_of_effects_unless_told() -> None:
    error = InvalidActionError("no")

    assert (error.effect, error.session_lost, error.retry_delay_s) == (Effect.NONE, False, None)
    assert (error.violations, error.metadata) == ((), {})


def test_an_error_carries_its_facts() -> None:
    violation = Violation(path="/a", type="missing", message="Field required")
    metadata = {"a": "1"}

    error = InvalidActionError(
        "no",
        effect=Effect.UNKNOWN,
        session_lost=True,
        retry_delay_s=2.0,
        violations=[violation],
        metadata=metadata,
    )
    metadata.clear()

    assert (error.effect, error.session_lost) == (Effect.UNKNOWN, True)
    assert (error.retry_delay_s, error.violations) == (2.0, (violation,))
    assert error.metadata == {"a": "1"}


def test_the_text_names_the_reason_and_the_message_does_not() -> None:
    error = InvalidActionError("the action was refused")

    assert str(error) == "the action was refused [INVALID_ACTION]"
    assert error.message == "the action was refused"


@pytest.mark.parametrize("named", [Reason.OUT_OF_ORDER, Effect.UNKNOWN])
def test_a_reason_or_effect_is_printed_by_name_and_sent_as_a_number(named: Reason | Effect) -> None:
    assert str(named) == f"{named}" == named.name
    assert f"{named:>20}" == named.name.rjust(20)
    assert f"%d {named!r}" % named == f"{int(named)} {named!r}"
    assert json.dumps(named) == str(int(named))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (OpenEnvError, RuntimeError),
        (DeadlineExceededError, TimeoutError),
        (UnavailableError, ConnectionError),
        (MissingDependencyError, ImportError),
    ],
)
def test_errors_are_caught_by_the_builtin_of_their_kind(
    error: type[OpenEnvError], builtin: type[Exception]
) -> None:
    with pytest.raises(builtin, match="no"):
        raise error("no")


def test_a_wrong_number_of_sessions_is_a_value_error_that_says_what_to_do() -> None:
    error = ConcurrencyConfigurationError("Chess", 4)

    assert isinstance(error, ValueError)
    assert "SUPPORTS_CONCURRENT_SESSIONS = True" in str(error)
    assert (error.environment_name, error.max_concurrent_envs) == ("Chess", 4)
