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
from openenv_grpc.tools.asking import Client, Question, ToolQuestion
from openenv_grpc.tools.changes import Change, report_changed, report_updated
from openenv_grpc.tools.functions import BoundTool, ToolFunction, tool
from openenv_grpc.tools.library import Library, Offers
from openenv_grpc.tools.notices import (
    LogLevel,
    ToolLog,
    ToolNotice,
    ToolProgress,
    report_log,
    report_progress,
)
from openenv_grpc.tools.prompts import PromptAnswer, PromptArgument, PromptInfo, prompt
from openenv_grpc.tools.questions import Elicited, Root, Sampled, elicit, roots, sample
from openenv_grpc.tools.resources import ResourceInfo, ResourceList, ResourceRead, resource
from openenv_grpc.tools.toolbox import Toolbox

__all__ = [
    "RESERVED_TOOL_NAMES",
    "TOOL_ACTIONS",
    "BoundTool",
    "CallToolAction",
    "CallToolObservation",
    "Change",
    "Client",
    "Elicited",
    "Library",
    "ListToolsAction",
    "ListToolsObservation",
    "LogLevel",
    "Media",
    "Offers",
    "PromptAnswer",
    "PromptArgument",
    "PromptInfo",
    "Question",
    "ResourceInfo",
    "ResourceList",
    "ResourceRead",
    "Root",
    "Sampled",
    "Tool",
    "ToolAnswer",
    "ToolError",
    "ToolErrorType",
    "ToolFunction",
    "ToolInfo",
    "ToolLog",
    "ToolNotice",
    "ToolOutcome",
    "ToolProgress",
    "ToolQuestion",
    "ToolResult",
    "Toolbox",
    "elicit",
    "prompt",
    "report_changed",
    "report_log",
    "report_progress",
    "report_updated",
    "resource",
    "roots",
    "sample",
    "tool",
]
