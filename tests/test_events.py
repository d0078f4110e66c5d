from __future__ import annotations

import logging
import sys
from contextvars import copy_context

import pytest

from openenv_grpc.events import event_of, facts_of, in_session, log_event

logger = logging.getLogger("openenv_grpc.tests")


def logged(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    (record,) = caplog.records
    return record


def test_an_event_is_text_with_its_facts_and_both_are_on_the_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_event(logger, logging.WARNING, "door jammed", door="north", force=3, peer=None)

    record = logged(caplog)
    assert record.getMessage() == "door jammed door=north force=3"
    assert event_of(record) == "door jammed"
    assert facts_of(record) == {"door": "north", "force": 3}
    assert record.funcName == "test_an_event_is_text_with_its_facts_and_both_are_on_the_record"


def test_an_error_brings_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("stuck")
    except ValueError as error:
        log_event(logger, logging.ERROR, "door jammed", error=error)
        expected = sys.exc_info()

    assert logged(caplog).exc_info == expected


def test_what_is_not_logged_costs_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    log_event(logger, logging.INFO, "door opened")

    assert caplog.records == []


def test_a_plain_record_tells_its_message_and_has_no_facts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger.warning("%d doors", 2)

    assert (event_of(logged(caplog)), facts_of(logged(caplog))) == ("2 doors", {})


def test_what_is_logged_in_a_session_is_of_it(caplog: pytest.LogCaptureFixture) -> None:
    def log() -> None:
        with in_session("mine"):
            logger.warning("from the environment")
            assert facts_of(logged(caplog)) == {"session_id": "mine"}
        assert facts_of(logged(caplog)) == {}

    copy_context().run(log)


def test_a_session_that_is_named_is_not_overruled(caplog: pytest.LogCaptureFixture) -> None:
    with in_session("mine"):
        log_event(logger, logging.WARNING, "session closed", session_id="another")
        assert facts_of(logged(caplog)) == {"session_id": "another"}
