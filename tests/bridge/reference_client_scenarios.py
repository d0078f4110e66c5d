"""What the reference's own clients do with a server, told as JSON. Runs where the reference is.

python reference_client_scenarios.py SCENARIO URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from openenv.core.containers.runtime import LocalDockerProvider
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


def told(result: Any) -> dict[str, Any]:
    """Tells a step's result."""
    return {"observation": result.observation, "reward": result.reward, "done": result.done}


async def generic(url: str) -> dict[str, Any]:
    """Goes through an episode, and meets errors on the way."""
    async with GenericEnvClient(base_url=url) as client:
        told_by_step: dict[str, Any] = {"reset": told(await client.reset(seed=7, level=2))}
        told_by_step["step"] = told(await client.step({"text": "hi"}))
        told_by_step["state"] = await client.state()
        told_by_step["errors"] = []
        for action in ({"text": "y", "op": "fail"}, {"text": ""}, {"nothing": 1}):
            try:
                await client.step(action)
            except RuntimeError as error:
                told_by_step["errors"].append(str(error))
        told_by_step["last"] = told(await client.step({"text": "f", "op": "finish"}))
    return told_by_step


def generic_sync(url: str) -> dict[str, Any]:
    """Goes through an episode with blocking calls."""
    with GenericEnvClient(base_url=url).sync() as client:
        told_by_step: dict[str, Any] = {"reset": told(client.reset(seed=7, level=2))}
        told_by_step["step"] = told(client.step({"text": "hi"}))
        told_by_step["state"] = client.state()
        try:
            client.step({"text": "y", "op": "fail"})
        except RuntimeError as error:
            told_by_step["error"] = str(error)
        told_by_step["last"] = told(client.step({"text": "f", "op": "finish"}))
    return told_by_step


async def capacity(url: str) -> dict[str, Any]:
    """Asks a server of one slot for two sessions, then for one after the other."""
    refused = ""
    async with GenericEnvClient(base_url=url) as first:
        await first.reset()
        second = GenericEnvClient(base_url=url)
        try:
            await second.reset()
        except RuntimeError as error:
            refused = str(error)
        await second.close()
    async with GenericEnvClient(base_url=url) as third:
        after = told(await third.reset())
    return {"refused": refused, "after": after}


async def timeouts(url: str) -> dict[str, Any]:
    """Gives up on a slow step, and asks again."""
    async with GenericEnvClient(base_url=url, message_timeout_s=0.5) as client:
        await client.reset()
        try:
            await client.step({"text": "late", "op": "sleep", "amount": 1000})
        except TimeoutError:
            given_up = True
        else:
            given_up = False
        return {"given_up": given_up, "next": told(await client.step({"text": "next"}))}


async def many(url: str) -> dict[str, Any]:
    """Drives several sessions side by side."""
    clients = [GenericEnvClient(base_url=url) for _ in range(4)]

    async def drive(client: GenericEnvClient, number: int) -> int:
        async with client:
            await client.reset()
            for step in range(20):
                result = await client.step({"text": f"{number}-{step}"})
                assert result.observation["text"] == f"{number}-{step}"
            state = await client.state()
            return int(state["step_count"])

    return {"steps": await asyncio.gather(*[drive(each, n) for n, each in enumerate(clients)])}


async def tools(url: str) -> dict[str, Any]:
    """Lists and calls tools, by HTTP and by steps, in one session."""
    async with MCPToolClient(base_url=url) as client:
        listed = [tool.name for tool in await client.list_tools()]
        added = await client.call_tool("add", a=1, b=2)
        bumped = await client.call_tool("bump")
        failures = []
        for name, arguments in (("nosuch", {}), ("boom", {"reason": "r"})):
            try:
                await client.call_tool(name, **arguments)
            except RuntimeError as error:
                failures.append(str(error))
        by_step = await client.step(CallToolAction(tool_name="bump"))
        all_by_step = await client.step(ListToolsAction())
        state = await client.state()
    return {
        "listed": listed,
        "added": added,
        "bumped": bumped,
        "failures": failures,
        "by_step": by_step.observation.result["data"],
        "all_by_step": [tool.name for tool in all_by_step.observation.tools],
        "step_count": state.step_count,
    }


async def full(url: str) -> dict[str, Any]:
    """Asks a server of one slot for two sessions by tools."""
    async with MCPToolClient(base_url=url) as first:
        await first.list_tools()
        second = MCPToolClient(base_url=url)
        try:
            await second.connect()
        except RuntimeError as error:
            return {"refused": str(error)}
        finally:
            await second.close()
    return {"refused": ""}


def ready(url: str) -> dict[str, Any]:
    """Waits for a server as `from_docker_image` does; without a container, so without its start."""
    provider = LocalDockerProvider.__new__(LocalDockerProvider)
    LocalDockerProvider.wait_for_ready(provider, url, timeout_s=5.0)
    return {"ready": True}


def run(scenario: str, url: str) -> Any:
    """Runs a scenario."""
    found = globals()[scenario]
    return asyncio.run(found(url)) if asyncio.iscoroutinefunction(found) else found(url)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2])))
