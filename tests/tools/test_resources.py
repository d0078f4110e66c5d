"""Resources: declared, found by URIs, and read."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_grpc.errors import InvalidArgumentsError, ResourceNotFoundError
from openenv_grpc.own_loop import run_apart
from openenv_grpc.tools import Library, Media, resource


class Shelf:
    books: dict[int, str]

    def __init__(self) -> None:
        self.books = {1: "one"}

    @resource("shelf://books", description="All of them")
    def all_books(self) -> Any:
        return self.books

    @resource("shelf://books/first")
    def first(self) -> str:
        """The first."""
        return "first"

    @resource("shelf://books/{number}", title="A book", mime_type="text/markdown")
    async def book(self, number: int) -> str:
        """One book."""
        return self.books[number]

    @resource("files://{owner}/{+path}")
    def file(self, owner: str, path: str) -> bytes:
        return f"{owner}:{path}".encode()

    @resource("shelf://cover")
    def cover(self) -> Media:
        return Media(b"\x89", "image/png")


@pytest.fixture
def library() -> Library:
    return Library(Shelf(), run_apart)


def content(library: Library, uri: str) -> dict[str, Any]:
    (found,) = library.read_resource(uri).contents
    return found


def test_resources_and_templates_are_listed_apart(library: Library) -> None:
    listed = library.list_resources()
    assert [(each.uri, each.name) for each in listed.resources] == [
        ("shelf://books", "all_books"),
        ("shelf://books/first", "first"),
        ("shelf://cover", "cover"),
    ]
    assert [each.uri for each in listed.templates] == [
        "shelf://books/{number}",
        "files://{owner}/{+path}",
    ]
    assert listed.resources[0].description == "All of them"
    book = listed.templates[0]
    assert (book.title, book.description, book.mime_type) == (
        "A book",
        "One book.",
        "text/markdown",
    )


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("shelf://books", {"mimeType": "application/json", "text": '{"1":"one"}'}),
        ("shelf://books/first", {"mimeType": "text/plain", "text": "first"}),
        ("shelf://books/1", {"mimeType": "text/markdown", "text": "one"}),
        ("files://me/a/b%20c", {"mimeType": "application/octet-stream", "blob": "bWU6YS9iIGM="}),
        ("shelf://cover", {"mimeType": "image/png", "blob": "iQ=="}),
    ],
    ids=["json", "before its template", "template", "rest of a path", "media"],
)
def test_a_resource_is_read_by_its_uri(
    library: Library, uri: str, expected: dict[str, Any]
) -> None:
    assert content(library, uri) == {"uri": uri, **expected}


@pytest.mark.parametrize("uri", ["shelf://nothing", "shelf://books/1/2", "other", ""])
def test_a_uri_of_nothing_is_not_found(library: Library, uri: str) -> None:
    with pytest.raises(ResourceNotFoundError, match="Unknown resource"):
        library.read_resource(uri)


def test_a_part_of_a_uri_that_does_not_fit_is_refused(library: Library) -> None:
    with pytest.raises(InvalidArgumentsError, match="for resource 'book': number: Input should be"):
        library.read_resource("shelf://books/two")


def test_what_a_resource_raises_is_the_callers_to_handle(library: Library) -> None:
    with pytest.raises(KeyError):
        library.read_resource("shelf://books/7")


def test_a_uri_has_a_scheme() -> None:
    with pytest.raises(ValueError, match="with a scheme"):
        resource("books")(Shelf.first)


def test_a_resource_takes_what_its_uri_has() -> None:
    class Wrong:
        @resource("shelf://{title}")
        def book(self, name: str) -> str:
            return name

    with pytest.raises(TypeError, match="has to take what its URI has: title"):
        Library(Wrong(), run_apart).list_resources()


def test_a_method_under_the_decorator_is_still_a_method() -> None:
    assert Shelf().first() == "first"
