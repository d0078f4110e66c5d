"""Prompts: declared, described, and asked for."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from openenv_grpc.errors import InvalidArgumentsError
from openenv_grpc.own_loop import run_apart
from openenv_grpc.tools import Library, Media, PromptArgument, prompt


class Prompts:
    @prompt
    def review(self, title: str, words: Annotated[int, Field(description="How long")] = 100) -> str:
        """Asks for a review.

        Args:
            title: Of what.
        """
        return f"Review {title} in {words + 0} words."

    @prompt(name="talk", title="Talk", description="Starts to talk")
    async def conversation(self) -> list[Any]:
        return [
            "Hello",
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": {"type": "text", "text": "Bye"}},
            Media(b"\x89", "image/png"),
        ]

    @prompt
    def wrong(self) -> Any:
        return 7


@pytest.fixture
def library() -> Library:
    return Library(Prompts(), run_apart)


def test_prompts_are_described_by_signature_and_docstring(library: Library) -> None:
    review, talk, _ = library.list_prompts()
    assert (review.name, review.description) == ("review", "Asks for a review.")
    assert review.arguments == [
        PromptArgument(name="title", description="Of what.", required=True),
        PromptArgument(name="words", description="How long", required=False),
    ]
    assert (talk.name, talk.title, talk.description) == ("talk", "Talk", "Starts to talk")


def test_a_text_is_what_the_user_says_and_arguments_are_converted(library: Library) -> None:
    answer = library.get_prompt("review", {"title": "Dune", "words": "7"})
    assert answer.description == "Asks for a review."
    assert answer.messages == [
        {"role": "user", "content": {"type": "text", "text": "Review Dune in 7 words."}}
    ]


def test_a_list_is_a_conversation(library: Library) -> None:
    assert library.get_prompt("talk", {}).messages == [
        {"role": "user", "content": {"type": "text", "text": "Hello"}},
        {"role": "assistant", "content": {"type": "text", "text": "Hi"}},
        {"role": "user", "content": {"type": "text", "text": "Bye"}},
        {"role": "user", "content": {"type": "image", "data": "iQ==", "mimeType": "image/png"}},
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("nosuch", {}, "Unknown prompt: 'nosuch'"),
        ("review", {}, "for prompt 'review': title: Missing required"),
        ("review", {"title": "x", "words": "many"}, "words: Input should be a valid integer"),
        ("review", {"title": "x", "color": "red"}, "color: Unexpected keyword argument"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    library: Library, name: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        library.get_prompt(name, arguments)


def test_what_is_no_message_is_the_authors_mistake(library: Library) -> None:
    with pytest.raises(TypeError, match="'wrong' returned int"):
        library.get_prompt("wrong", {})
