"""A trainer opens an episode, watches its agent play it by MCP, and reads the verdict.

    python hand_over.py

Here both are in one program. Apart from `mcp.json` they share nothing: the agent may be any MCP
client on any machine that reaches the server, and can neither reset nor grade itself.
"""

from __future__ import annotations

import asyncio
import json
import re

import fastmcp
from quiz import Quiz

from openenv_grpc import GenericEnvClient, Server
from openenv_grpc.client import ToolCalled
from openenv_grpc.errors import OpenEnvError

TOKEN = "of-the-trainer"


async def train(url: str) -> None:
    """Hands one session to an agent, three episodes long."""
    async with GenericEnvClient(url, token=TOKEN, events=True) as trainer:
        access = await trainer.agent_access()
        for seed in (0, 1, 5):
            opened = await trainer.reset(seed=seed)
            question = opened.observation["question"]
            await act(access.mcp_json("quiz"), task=f"Answer this: {question}")
            print(f"the agent called {await called(trainer)}")
            verdict = await trainer.evaluate()
            print(f"{question}: reward {verdict.reward}, over: {verdict.done}")
        await try_to_cheat(url, access.token)


async def called(trainer: GenericEnvClient) -> str:
    """Reads which tools were called until the episode was over."""
    names = []
    async for event in trainer.events():
        if isinstance(event, ToolCalled):
            names.append(event.tool_name)
            if event.terminated:
                break
    return ", ".join(names)


async def act(mcp_json: str, *, task: str) -> None:
    """Plays an episode, in the place of a model that is given the task and the tools."""
    async with fastmcp.Client(json.loads(mcp_json)) as agent:
        tools = [tool.name for tool in await agent.list_tools()]
        assert tools == ["hint", "answer"], "there is nothing else within reach"
        if "/" in task:
            await agent.call_tool("hint", {})
        left, operator, right = re.findall(r"\d+|[*+/]", task)
        number = {
            "*": int(left) * int(right),
            "+": int(left) + int(right),
            "/": int(left) // int(right),
        }[operator]
        await agent.call_tool("answer", {"number": number})


async def try_to_cheat(url: str, token: str) -> None:
    """Shows that an agent's token opens no session of a trainer."""
    try:
        async with GenericEnvClient(url, token=token) as cheat:
            await cheat.reset()
    except OpenEnvError as error:
        print(f"refused: {error.reason.name}")


async def main() -> None:
    async with Server(f"{Quiz.__module__}:Quiz", grpc_port=0, http_port=0, tokens=TOKEN) as server:
        await train(f"grpc://{server.grpc_address}")


if __name__ == "__main__":
    asyncio.run(main())
