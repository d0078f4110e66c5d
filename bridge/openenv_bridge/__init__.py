"""OpenEnv's own protocols, `/ws`, HTTP and `/mcp`, served in the process of the engine."""

from openenv_bridge.app import Bridge

__all__ = ["Bridge"]
