"""What a client of MCP offers to be asked, as its capabilities say."""

from __future__ import annotations

from openenv_grpc.operations import Kind
from openenv_grpc.types import JsonValue

ASKING = frozenset({Kind.CALL_TOOL, Kind.READ_RESOURCE, Kind.GET_PROMPT})
"""During what a client may be asked."""


def offers(capabilities: JsonValue) -> frozenset[str]:
    """Returns the capabilities that tools have questions for."""
    if not isinstance(capabilities, dict):
        return frozenset()
    found = {name for name in ("sampling", "roots") if isinstance(capabilities.get(name), dict)}
    match capabilities.get("elicitation"):
        case {"form": _}:
            found.add("elicitation")
        case {"url": _}:
            pass  # it shows pages and no forms
        case {}:
            found.add("elicitation")
    return frozenset(found)
