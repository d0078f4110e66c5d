"""`GET /metrics`."""

from __future__ import annotations

import math
import re

from openenv_bridge.binary_ws import SUBPROTOCOL
from openenv_bridge.prometheus import _sample
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition
from openenv_grpc.sessions import Wait
from openenv_grpc.v1 import session_pb2
from tests.bridge.conftest import Serve, Served, no_sessions, talk
from tests.environments import Count, Counted, Failing
from tests.stream.pipe import opening

FAILING = EnvironmentDefinition(
    factory=Failing, action_type=Count, observation_type=Counted, name="failing"
)
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


async def scrape(served: Served) -> dict[str, float]:
    """Reads the metrics, by name and labels as they are written."""
    async with served.http.get(served.url + "/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = await response.text()
    assert text.endswith("\n")
    samples: dict[str, float] = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found is not None, line
            name = found[1]
            assert name in typed or re.sub("_(bucket|sum|count)$", "", name) in typed, line
            assert f"{name}{{{found[2] or ''}}}" not in samples, line
            samples[f"{name}{{{found[2] or ''}}}"] = float(found[3])
    return samples


async def test_sessions_operations_and_errors_are_told(serve: Serve) -> None:
    async with serve(FAILING) as served:
        before = await scrape(served)
        assert before['openenv_sessions{environment="failing",state="ready"}'] == 0
        assert before['openenv_session_limit{environment="failing"}'] == 256
        async with served.ws() as socket:
            await talk(socket, type="reset", data={})
            await talk(socket, type="step", data={"text": "value"})
            during = await scrape(served)
        await no_sessions(served.manager)
        after = await scrape(served)
    assert during['openenv_sessions{environment="failing",state="ready"}'] == 1
    assert after['openenv_sessions{environment="failing",state="ready"}'] == 0
    assert after['openenv_sessions_opened_total{environment="failing"}'] == 1
    ended = 'openenv_sessions_ended_total{environment="failing",cause="its connection ended"}'
    assert after[ended] == 1
    errors = 'openenv_errors_total{environment="failing",reason="ENVIRONMENT_FAILED"}'
    assert (errors in before, after[errors]) == (False, 1)
    labels = 'environment="failing",operation="step"'
    name = "openenv_operation_duration_seconds"
    assert after[f"{name}_count{{{labels}}}"] == 1
    assert after[f'{name}_bucket{{{labels},le="+Inf"}}'] == 1
    assert 0 < after[f"{name}_sum{{{labels}}}"] < 10
    buckets = [value for key, value in after.items() if key.startswith(f"{name}_bucket{{{labels}")]
    assert len(buckets) == 20
    assert buckets == sorted(buckets)
    assert after["openenv_stuck_threads{}"] == after["openenv_draining{}"] == 0


async def test_limits_and_what_is_in_use_are_told(serve: Serve) -> None:
    settings = EngineSettings(max_records=7, opens_per_minute=None)
    async with serve(FAILING, settings=settings) as served:
        samples = await scrape(served)
    assert samples['openenv_limit{limit="max_records"}'] == 7
    assert samples['openenv_limit{limit="opens_per_minute"}'] == math.inf
    assert samples["openenv_operations_in_flight{}"] == samples["openenv_record_bytes{}"] == 0
    assert samples["openenv_kept_records{}"] == samples["openenv_kept_record_bytes{}"] == 0
    assert samples["openenv_opens_limited_total{}"] == 0
    assert "openenv_log_lines_dropped_total{}" in samples


async def test_snapshots_are_told(serve: Serve) -> None:
    async with serve(FAILING) as served:
        served.manager.metrics.snapshots = 2
        served.manager.metrics.snapshot_bytes = 300
        served.manager.metrics.snapshots_dropped = 1
        samples = await scrape(served)
    assert samples["openenv_snapshots{}"] == 2
    assert samples["openenv_snapshot_bytes{}"] == 300
    assert samples["openenv_snapshots_dropped_total{}"] == 1


async def test_a_drain_is_told(serve: Serve) -> None:
    async with serve(FAILING) as served:
        served.manager.drain()
        assert (await scrape(served))["openenv_draining{}"] == 1


async def test_bytes_are_told_by_door(serve: Serve) -> None:
    def through(samples: dict[str, float], door: str) -> tuple[float, float]:
        names = (f"openenv_{way}_bytes_total" for way in ("received", "sent"))
        received, sent = (samples.get(f'{name}{{door="{door}"}}', 0) for name in names)
        return received, sent

    async with serve(FAILING) as served:
        async with served.ws() as socket:
            frame = '{"type": "reset", "data": {}}'
            await socket.send_str(frame)
            answer = await socket.receive_str(timeout=10)
        samples = await scrape(served)
        assert through(samples, "ws") == (len(frame), len(answer))
        request = session_pb2.ConnectRequest(operations=[opening(1)]).SerializeToString()
        async with served.ws(protocols=[SUBPROTOCOL]) as socket:
            await socket.send_bytes(request)
            response = await socket.receive_bytes(timeout=10)
        samples = await scrape(served)
        assert through(samples, "ws") == (
            len(frame) + len(request), len(answer) + len(response),
        )  # fmt: skip
        http = through(samples, "http")
        body = b'{"seed": 3}'
        async with served.http.post(served.url + "/reset", data=body) as posted:
            told = await posted.read()
        samples, scraped = await scrape(served), len(await _text(served))
        received, sent = through(samples, "http")
        assert received == http[0] + len(body)
        assert sent > http[1] + len(told)  # with the scrape before it
        assert scraped > 0
        assert through(samples, "mcp") == (0, 0)
        async with served.http.post(served.url + "/mcp", data=b"{}") as posted:
            told = await posted.read()
        assert through(await scrape(served), "mcp") == (2, len(told))


async def _text(served: Served) -> str:
    async with served.http.get(served.url + "/metrics") as response:
        return await response.text()


def test_labels_are_escaped() -> None:
    assert _sample("x", 1, name='a"b\\c\nd') == 'x{name="a\\"b\\\\c\\nd"} 1'


async def test_openings_that_wait_are_told(serve: Serve) -> None:
    async with serve(FAILING) as served, served.manager.attach(peer="test") as attachment:
        for _ in range(258):
            attachment.open("", wait=Wait())
        samples = await scrape(served)
        assert samples['openenv_sessions{environment="failing",state="queued"}'] == 2
        assert samples['openenv_sessions_opened_total{environment="failing"}'] == 256
