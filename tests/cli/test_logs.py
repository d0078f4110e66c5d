from __future__ import annotations

import json
import logging

import pytest

from openenv_grpc.cli.logs import JsonFormatter, TextFormatter
from openenv_grpc.events import in_session, log_event

logger = logging.getLogger("openenv_grpc.tests")


def test_json_has_an_events_facts_as_fields_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    log_event(logger, logging.WARNING, "session closed", session_id="a", steps=3, time="no")

    written = json.loads(JsonFormatter().format(caplog.records[0]))
    assert written.pop("time") != "no"
    assert written == {
        "level": "warning",
        "logger": "openenv_grpc.tests",
        "message": "session closed",
        "session_id": "a",
        "steps": 3,
    }


def test_both_formats_name_the_session_of_what_an_environment_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with in_session("a"):
        logger.warning("the dragon wakes")
        (record,) = caplog.records
        text = TextFormatter("%(message)s").format(record)
        written = json.loads(JsonFormatter().format(record))

    assert text == "the dragon wakes session_id=a"
    assert (written["message"], written["session_id"]) == ("the dragon wakes", "a")


def test_text_names_the_session_of_an_event_once(caplog: pytest.LogCaptureFixture) -> None:
    with in_session("a"):
        log_event(logger, logging.ERROR, "environment failed", session_id="a")
        text = TextFormatter("%(message)s").format(caplog.records[0])

    assert text == "environment failed session_id=a"
