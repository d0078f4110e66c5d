"""`serve --otel`, as a process, with environments in processes of their own."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import aiohttp

from tests.served_process import ServedProcess, start_server


async def test_an_environment_in_a_process_goes_on_with_its_clients_trace(tmp_path: Path) -> None:
    variables = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "20"}  # ms
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    serving = start_server(
        tmp_path, "echo_env", "--isolation", "process", "--otel", environment=variables
    )
    with serving as served:
        url = f"http://{served.address('http')}/ws"
        headers = {"traceparent": traceparent}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, headers=headers) as ws,
        ):
            await ws.send_json({"type": "reset"})
            assert (await ws.receive_json())["type"] == "observation"
        async with asyncio.timeout(20):
            while not {"openenv reset", "echo_env reset"} <= (spans := spans_of(served)).keys():
                await asyncio.sleep(0.05)

    served_trace, served_id, above = spans["openenv reset"]
    assert (served_trace, above) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    done_trace, _, above = spans["echo_env reset"]
    assert (done_trace, above) == (served_trace, served_id)


def spans_of(served: ServedProcess) -> dict[str, tuple[str, str, str]]:
    """Returns trace, id and parent of each span that was written to the log."""
    shown = re.findall(
        r'"name": "([^"]+)",\s+"context": \{\s+"trace_id": "0x(\w+)",\s+"span_id": "0x(\w+)",'
        r'[^{}]+\},\s+"kind": "[^"]+",\s+"parent_id": "0x(\w+)"',
        served.log.read_text(encoding="utf-8"),
    )
    return {name: (trace, span, parent) for name, trace, span, parent in shown}
