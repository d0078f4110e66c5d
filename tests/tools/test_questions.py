"""What a tool asks, as MCP writes it, and what it gets."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from openenv_grpc.errors import ClientAnswerError
from openenv_grpc.tools import Media, ToolQuestion, elicit, sample
from openenv_grpc.tools.asking import asking
from tests.tools.test_asking import Answering


class Order(BaseModel):
    amount: int = 1


class Asking(Answering):
    """Keeps what it is asked."""

    def ask(self, questions: Any) -> None:
        [self.question] = questions
        super().ask(questions)


def asked(call: Any, result: Any) -> tuple[ToolQuestion, Any]:
    """Asks; returns the question, and what the tool gets where the client answers so."""
    client = Asking({"elicitation/create": result, "sampling/createMessage": result})
    answer = asking(client, lambda: call().wait())
    return client.question, answer


def test_a_form_comes_back_as_its_model() -> None:
    content = {"amount": 3.0}
    question, answer = asked(
        lambda: elicit("How many?", Order), {"action": "accept", "content": content}
    )
    assert question.params["message"] == "How many?"
    assert question.params["mode"] == "form"
    assert question.params["requestedSchema"]["properties"]["amount"]["default"] == 1
    assert (answer.action, answer.content) == ("accept", Order(amount=3))


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_form_that_was_not_filled_in_has_no_content(action: str) -> None:
    _, answer = asked(lambda: elicit("How many?", Order), {"action": action})
    assert (answer.action, answer.content) == (action, None)


def test_a_question_without_a_form_is_accepted_or_not() -> None:
    question, answer = asked(lambda: elicit("Sure?"), {"action": "accept"})
    assert question.params["requestedSchema"] == {"type": "object", "properties": {}}
    assert answer.action == "accept"


def test_a_form_with_what_does_not_fit_is_no_answer() -> None:
    result = {"action": "accept", "content": {"amount": "many"}}
    with pytest.raises(ClientAnswerError, match="amount: Input should be a valid integer"):
        asked(lambda: elicit("How many?", Order), result)


def test_a_model_is_asked_by_messages_and_all_that_goes_with_them() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    result = {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}
    question, said = asked(
        lambda: sample(
            ["Hi", Media(b"x", "image/png"), {"role": "assistant", "content": "Hello"}],
            max_tokens=7,
            system_prompt="Be short.",
            temperature=0.5,
            stop_sequences=["."],
            model_preferences={"speedPriority": 1},
        ),
        result,
    )
    roles = [message["role"] for message in question.params.pop("messages")]
    assert roles == ["user", "user", "assistant"]
    assert question.params == {
        "maxTokens": 7,
        "systemPrompt": "Be short.",
        "temperature": 0.5,
        "stopSequences": ["."],
        "modelPreferences": {"speedPriority": 1},
    }
    assert (said.text, said.model, said.stop_reason) == ("a\nb", "m", "endTurn")
    assert said.content == content


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="sample\\(\\) takes messages, not int"):
        asked(lambda: sample([5], max_tokens=1), None)  # type: ignore[list-item]  # the point
