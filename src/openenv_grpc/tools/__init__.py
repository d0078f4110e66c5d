"""Tools: what an agent may do in an environment, and how an author writes them."""

from openenv_grpc.tools.actions import (
    RESERVED_TOOL_NAMES,
    TOOL_ACTIONS,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv_grpc.tools.answers import Media, ToolAnswer, ToolInfo, ToolOutcome, ToolResult
from openenv_grpc.tools.functions import BoundTool, ToolFunction, tool
from openenv_grpc.tools.toolbox import Toolbox

__all__ = [
    "RESERVED_TOOL_NAMES",
    "TOOL_ACTIONS",
    "BoundTool",
    "CallToolAction",
    "CallToolObservation",
    "ListToolsAction",
    "ListToolsObservation",
    "Media",
    "Tool",
    "ToolAnswer",
    "ToolError",
    "ToolErrorType",
    "ToolFunction",
    "ToolInfo",
    "ToolOutcome",
    "ToolResult",
    "Toolbox",
    "tool",
]
