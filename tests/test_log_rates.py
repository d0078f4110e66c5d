from __future__ import annotations

import logging

import pytest

from openenv_grpc.events import event_of, log_event
from openenv_grpc.log_rates import PeerLogLimit, dropped

logger = logging.getLogger("openenv_grpc.tests")


def test_a_peer_that_causes_too_many_lines_is_told_of_once_and_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.handler.addFilter(limit := PeerLogLimit(2))
    before = dropped.lines
    try:
        for _ in range(5):
            log_event(logger, logging.WARNING, "session opened", peer="ipv4:10.0.0.1:4000")
        log_event(logger, logging.WARNING, "session opened", peer="ipv4:10.0.0.2:4000")
        logger.warning("of nobody")
    finally:
        caplog.handler.removeFilter(limit)

    assert [event_of(record) for record in caplog.records] == [
        "session opened",
        "session opened",
        "dropping log lines of a peer",
        "session opened",
        "of nobody",
    ]
    assert "address=10.0.0.1" in caplog.records[2].getMessage()
    assert dropped.lines - before == 3
