"""`subscriptions/listen` of 2026-07-28: a response that tells of changes until it is closed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from openenv_bridge.mcp import envelope, messages
from openenv_bridge.mcp.exchange import Answered, Told
from openenv_bridge.mcp.messages import INVALID_PARAMS, Call, McpError
from openenv_bridge.mcp.pushes import Pushes, Wishes
from openenv_grpc.types import JsonValue

_LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts"} | {
    "resourcesListChanged": "resources"
}
_URIS = "resourceSubscriptions"


def wishes(call: Call) -> Wishes:
    """Reads what a client wants to be told. Raises `McpError`."""
    asked = call.params.get("notifications")
    asked = asked if isinstance(asked, dict) else {_URIS: None}
    uris = asked.get(_URIS, [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        told = f"{call.method} takes notifications, an object, in which {_URIS} are a list of texts"
        raise McpError(INVALID_PARAMS, told, call_id=call.id)
    lists = {named for name, named in _LISTS.items() if asked.get(name) is True}
    return Wishes(lists=lists, uris=frozenset(uris))


async def told(
    call: Call, honored: Wishes, pushes: Pushes, listens: AbstractContextManager[None]
) -> Told:
    """Tells what is honored of what a client wants, then the changes, and at last of the end."""
    meta: JsonValue = {envelope.SUBSCRIPTION_META: call.id}
    with listens:
        params: dict[str, JsonValue] = {"notifications": _written(honored), "_meta": meta}
        yield messages.notification("notifications/subscriptions/acknowledged", params)
        async for content in pushes.told():
            yield content
    yield Answered(messages.result(call.id, {"resultType": "complete", "_meta": meta}))


def _written(honored: Wishes) -> dict[str, JsonValue]:
    lists = {name: True for name, named in _LISTS.items() if named in honored.lists}
    return {**lists, _URIS: sorted(honored.uris)} if honored.uris else lists
