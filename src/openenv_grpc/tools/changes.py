"""What an environment tells of itself to who listens: that lists or resources have changed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, get_args

from openenv_grpc.tools.surroundings import within

Listed = Literal["tools", "prompts", "resources"]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not as it was."""

    listed: Listed | None = None
    """The list that changed; `None` where a resource did."""
    uri: str = ""


TellChange = Callable[[Change], None]
"""Takes a change, from any thread."""

_TELL: ContextVar[TellChange | None] = ContextVar("openenv_grpc_tell_change", default=None)


def report_changed(listed: Listed) -> None:
    """Tells the agents of the session that its list of tools, prompts or resources is another.

    It works in tools, and in `reset` and `step`, and does nothing where nobody listens.

    Raises:
        ValueError: there is no such list.
    """
    if listed not in get_args(Listed):
        raise ValueError(f"what can be listed is {', '.join(get_args(Listed))}, not {listed!r}")
    _report(Change(listed=listed))


def report_updated(uri: str) -> None:
    """Tells the agents of the session who subscribed to a resource that it is not as it was.

    It works in tools, and in `reset` and `step`, and does nothing where nobody listens.
    """
    _report(Change(uri=uri))


def _report(change: Change) -> None:
    tell = _TELL.get()
    if tell is not None:
        tell(change)


def noted(tell: TellChange, call: Callable[[], Any]) -> Any:
    """Makes a call such that changes are told of, even in what of it is awaited later."""
    return within(_TELL, tell, call)
