"""What a trainer hands its agent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from openenv_grpc.errors import NotSupportedError
from openenv_grpc.types import JsonValue

AGENT_ACCESS = "agent_access"
"""The feature of servers that mint it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAccess:
    """What an agent needs to use the tools of one session, and nothing else."""

    url: str
    """Where MCP is spoken. Empty if the server has no HTTP door."""
    token: str = field(repr=False)
    """Opens the tools of this session alone, while it lives. Empty if the server asks for none."""
    session_id: str
    """Names the session where no token does: in `ToolService`, and in the URL of `/mcp`, as
    `?session_id=`."""

    def mcp_json(self, name: str = "environment") -> str:
        """Returns the `mcp.json` with which MCP clients find the tools, under a name.

        Without a token its URL names the session.

        Raises:
            NotSupportedError: the server has no HTTP door.
        """
        if not self.url:
            raise NotSupportedError(
                "the server has no HTTP door, which MCP needs; serve it without --no-http"
            )
        url = self.url if self.token else f"{self.url}?session_id={self.session_id}"
        server: dict[str, JsonValue] = {"type": "http", "url": url}
        if self.token:
            server["headers"] = {"Authorization": f"Bearer {self.token}"}
        return json.dumps({"mcpServers": {name: server}}, indent=2)
