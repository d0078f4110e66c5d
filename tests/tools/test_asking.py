"""How a tool asks, and waits for its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from openenv_grpc.errors import ClientAnswerError, ClientCapabilityError
from openenv_grpc.tools import ToolQuestion, elicit, roots
from openenv_grpc.tools.asking import METHODS, asking

HERE = {"roots": [{"uri": "file:///work", "name": "work"}]}


class Answering:
    """Gives each question its method's answer at once, or none. Implements `Client`."""

    def __init__(self, answers: dict[str, Any], offers: Sequence[str] = tuple(METHODS)) -> None:
        self.offers = frozenset(offers)
        self.asked: list[list[str]] = []
        self._answers = answers

    def ask(self, questions: Sequence[ToolQuestion]) -> None:
        self.asked.append([question.key for question in questions])
        for question in questions:
            if question.method in self._answers:
                question.answer(self._answers[question.method])


def test_a_plain_tool_waits_for_the_answer() -> None:
    client = Answering({"roots/list": HERE})
    [root] = asking(client, lambda: roots().wait())
    assert (root.uri, root.name) == ("file:///work", "work")


async def test_an_asynchronous_tool_awaits_it() -> None:
    async def where() -> str:
        return (await roots())[0].uri

    assert await asking(Answering({"roots/list": HERE}), where) == "file:///work"


def test_what_is_asked_before_the_first_waits_goes_out_together_under_names_of_its_own() -> None:
    client = Answering({"roots/list": HERE, "elicitation/create": {"action": "cancel"}})

    def ask() -> None:
        first, second, third = roots(), roots(), elicit("Sure?", key="sure")
        second.wait()
        first.wait()
        third.wait()
        elicit("Sure?", key="sure").wait()

    asking(client, ask)
    assert client.asked == [["roots", "roots-2", "sure"], ["sure-2"]]


def test_what_nobody_waits_for_is_not_asked() -> None:
    client = Answering({})

    def ask() -> None:
        roots()

    asking(client, ask)
    assert client.asked == []


def test_a_tool_without_a_client_is_refused_where_it_asks() -> None:
    with pytest.raises(ClientCapabilityError, match="roots") as refused:
        roots()
    assert refused.value.metadata == {"capability": "roots"}


def test_what_the_client_does_not_offer_is_refused() -> None:
    with pytest.raises(ClientCapabilityError, match="elicitation"):
        asking(Answering({}, offers=["roots"]), lambda: elicit("Sure?"))


def test_a_plain_tool_waits_no_longer_than_it_says() -> None:
    with pytest.raises(ClientAnswerError, match=r"did not answer 'roots' within 0\.01 seconds"):
        asking(Answering({}), lambda: roots(timeout_s=0.01).wait())


async def test_an_asynchronous_tool_waits_no_longer_than_it_says() -> None:
    async def where() -> Any:
        return await roots(timeout_s=0.01)

    with pytest.raises(ClientAnswerError, match="did not answer"):
        await asking(Answering({}), where)


async def test_who_blocks_the_event_loop_is_told_at_once() -> None:
    with pytest.raises(RuntimeError, match="awaits what it asks"):
        asking(Answering({}), lambda: roots().wait())


def test_a_question_that_fails_says_why() -> None:
    class Failing(Answering):
        def ask(self, questions: Sequence[ToolQuestion]) -> None:
            for question in questions:
                question.fail("the client is gone")
                question.answer(HERE)  # too late

    with pytest.raises(ClientAnswerError, match="the client is gone"):
        asking(Failing({}), lambda: roots().wait())


async def test_an_answer_may_come_from_any_thread() -> None:
    class Elsewhere(Answering):
        def ask(self, questions: Sequence[ToolQuestion]) -> None:
            threading.Thread(target=questions[0].answer, args=(HERE,)).start()

    async def where() -> str:
        return (await roots())[0].uri

    async with asyncio.timeout(30):
        assert await asking(Elsewhere({}), where) == "file:///work"


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("elicitation/create", {"action": "accept", "content": {"a": 1}}),
        ("elicitation/create", {"action": "accept"}),
        ("elicitation/create", {"action": "decline"}),
        ("sampling/createMessage", {"role": "assistant", "content": {}, "model": "m"}),
        ("roots/list", HERE),
        ("roots/list", {"roots": []}),
    ],
)
def test_results_of_a_method_are_taken(method: str, result: Any) -> None:
    ToolQuestion(key="it", method=method, params={}).check(result)


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("elicitation/create", None),
        ("elicitation/create", {"action": "accept", "content": 5}),
        ("elicitation/create", {"action": "shrug"}),
        ("sampling/createMessage", {"role": "assistant", "content": "text", "model": "m"}),
        ("sampling/createMessage", {"role": "assistant", "content": {}}),
        ("roots/list", {"roots": ["file:///work"]}),
        ("roots/list", []),
    ],
)
def test_what_is_no_result_of_a_method_is_refused(method: str, result: Any) -> None:
    with pytest.raises(ClientAnswerError, match="no result of"):
        ToolQuestion(key="it", method=method, params={}).check(result)
