"""Requests to a client of 2024-11-05 to 2025-11-25, and the answers that it posts."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from functools import partial

from openenv_bridge.mcp import messages
from openenv_bridge.mcp.messages import INVALID_PARAMS, INVALID_REQUEST, Answer, McpError
from openenv_grpc.errors import ClientAnswerError
from openenv_grpc.tools import ToolQuestion
from openenv_grpc.types import JsonValue


class Requests:
    """What one client was asked and has not answered."""

    def __init__(self) -> None:
        self._asked: dict[str, ToolQuestion] = {}
        self._names: dict[ToolQuestion, str] = {}

    def write(self, question: ToolQuestion) -> bytes:
        """Writes the request for a question, which waits for its answer from now on."""
        name = uuid.uuid4().hex
        self._asked[name], self._names[question] = question, name
        question.answered.add_done_callback(partial(self._forget, name, question))
        return messages.request(name, question.method, question.params)

    def take(self, answer: Answer) -> None:
        """Hands an answer to the tool that waits for it.

        Raises:
            McpError: nothing was asked by that id, or nobody waits any more; or it is no result.
        """
        question = self._asked.get(str(answer.id))
        if question is None:
            told = "nothing that waits for an answer was asked by that id in this session"
            raise McpError(INVALID_REQUEST, told, call_id=answer.id)
        if answer.error is not None:
            question.fail(f"the client answered with an error: {_message(answer.error)}")
            return
        try:
            question.check(answer.result)
        except ClientAnswerError as error:
            question.fail(str(error))
            raise McpError(INVALID_PARAMS, str(error), call_id=answer.id) from error
        question.answer(answer.result)

    def withdraw(self, question: ToolQuestion) -> bytes:
        """Writes that nobody waits for an answer any more."""
        params = {"requestId": self._names.pop(question), "reason": "the tool waits no longer"}
        return messages.notification("notifications/cancelled", params)

    def _forget(self, name: str, question: ToolQuestion, answered: Future[JsonValue]) -> None:
        self._asked.pop(name, None)
        if not answered.cancelled():  # else it is told yet
            self._names.pop(question, None)


def _message(error: JsonValue) -> str:
    match error:
        case {"message": str(told)}:
            return told
        case _:
            return "without a message"
