from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.engine.process.frames import (
    INLINE_BYTES,
    Frame,
    FrameKind,
    FrameReader,
    anonymous_file,
    read_answer,
    read_change,
    read_error,
    read_notice,
    read_operation,
    read_questions,
    write_answer,
    write_change,
    write_error,
    write_frame,
    write_notice,
    write_operation,
    write_questions,
)
from openenv_grpc.errors import ERROR_TYPES, Effect, OpenEnvError, Reason, Violation
from openenv_grpc.hearing import Interview
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.tools import Change, ToolLog, ToolNotice, ToolProgress, ToolQuestion
from tests.engine.talking import CODEC, JsonCodec


@pytest.fixture
def file() -> Iterator[int]:
    opened = anonymous_file()
    yield opened
    os.close(opened)


@given(
    frames=st.lists(
        st.builds(
            Frame,
            st.sampled_from(FrameKind),
            st.integers(-(2**63), 2**63 - 1),
            st.binary(max_size=50),
            st.binary(max_size=50),
        ),
        max_size=5,
    ),
    cut=st.integers(1, 40),
)
def test_frames_arrive_as_they_were_sent_however_they_are_cut(
    frames: list[Frame], cut: int
) -> None:
    sent = b"".join(
        write_frame(-1, kind, number=number, facts=facts, content=content)
        for kind, number, facts, content in frames
    )
    reader = FrameReader(-1)
    pieces = (sent[start : start + cut] for start in range(0, len(sent), cut))
    assert [frame for piece in pieces for frame in reader.feed(piece)] == frames


@pytest.mark.parametrize("size", [INLINE_BYTES - 1, INLINE_BYTES, 3 * INLINE_BYTES + 1])
def test_a_large_content_does_not_go_over_the_socket(file: int, size: int) -> None:
    content = os.urandom(size)
    sent = write_frame(file, FrameKind.OUTCOME, number=7, facts=b"facts", content=content)
    assert (len(sent) < 100) == (size >= INLINE_BYTES)
    assert list(FrameReader(file).feed(sent)) == [Frame(FrameKind.OUTCOME, 7, b"facts", content)]


def test_a_content_that_is_not_in_the_file_is_not_waited_for(file: int) -> None:
    sent = write_frame(file, FrameKind.OUTCOME, content=bytes(INLINE_BYTES))
    os.ftruncate(file, 10)
    with pytest.raises(EOFError):
        list(FrameReader(file).feed(sent))


def test_the_file_has_no_name(file: int) -> None:
    assert "(deleted)" in str(Path(f"/proc/self/fd/{file}").readlink())


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_errors_of_every_reason_cross_with_their_facts(reason: Reason) -> None:
    error = ERROR_TYPES[reason](
        "it went wrong \udcff",
        effect=Effect.DONE,
        session_lost=True,
        retry_delay_s=1.5,
        violations=[Violation(path="/by", type="int_parsing", message="no integer")],
        metadata={"name": "value"},
    )
    read = read_error(write_error(error))
    assert type(read) is type(error)
    assert vars(read) == vars(error)
    assert read.args == error.args


def test_an_error_of_an_authors_own_class_crosses_by_its_reason() -> None:
    class Own(OpenEnvError):
        reason = Reason.TASK_NOT_FOUND

    assert type(read_error(write_error(Own("no task")))) is ERROR_TYPES[Reason.TASK_NOT_FOUND]


QUESTION = ToolQuestion(key="where", method="roots/list", params={})


def untold(change: Change) -> None:
    raise AssertionError("nobody is to be told of a change")


class Deaf:
    def tell(self, notice: ToolNotice) -> None:
        raise AssertionError("nobody is to be told anything")


@pytest.mark.parametrize(
    "notice",
    [
        ToolProgress(progress=1.5, total=3, message="half"),
        ToolProgress(progress=1),
        ToolLog(level="warning", data={"k": [1]}, logger="shop"),
    ],
)
def test_notices_cross(notice: ToolNotice) -> None:
    assert read_notice(write_notice(notice)) == notice


def test_somebody_listens_on_the_other_side_if_somebody_does_here() -> None:
    operation = Operation(kind=Kind.CALL_TOOL, codec=CODEC)
    operation.listener = Deaf()
    listener = Deaf()
    assert (
        read_operation(write_operation(operation), listener, Interview, untold).listener is listener
    )


async def test_what_the_client_offers_is_known_on_the_other_side() -> None:
    asks = Interview(frozenset({"roots"}))
    operation = Operation(kind=Kind.CALL_TOOL, codec=CODEC)
    operation.listener = operation.client = asks
    read = read_operation(write_operation(operation), Deaf(), Interview, untold)
    assert read.client is not None
    assert read.client.offers == {"roots"}


@pytest.mark.parametrize("change", [Change(listed="tools"), Change(uri="shop://stock")])
def test_changes_cross(change: Change) -> None:
    assert read_change(write_change(change)) == change


def test_who_follows_is_told_on_the_other_side() -> None:
    operation = Operation(kind=Kind.STEP, codec=CODEC)
    operation.changes = untold
    assert read_operation(write_operation(operation), Deaf(), Interview, untold).changes is untold


def test_questions_cross() -> None:
    [read] = read_questions(write_questions([QUESTION]))
    assert (read.key, read.method, read.params) == ("where", "roots/list", {})
    assert not read.answered.done()


def test_answers_cross_and_so_does_that_there_is_none() -> None:
    asked, failed = replace(QUESTION, answered=Future()), replace(QUESTION, answered=Future())
    asked.answer({"roots": []})
    failed.fail("gone")
    assert read_answer(write_answer(asked)) == ("where", {"roots": []}, None)
    assert read_answer(write_answer(failed)) == ("where", None, "gone")


def test_an_answer_that_is_too_large_is_told_of_in_its_place() -> None:
    asked = replace(QUESTION, answered=Future())
    asked.answer({"roots": [{"uri": "a" * INLINE_BYTES}]})
    _, result, error = read_answer(write_answer(asked))
    assert result is None
    assert error is not None
    assert "bytes" in error


def test_operations_cross() -> None:
    operation = Operation(
        kind=Kind.STEP,
        codec=CODEC,
        payload={"text": "a"},
        request_id=3,
        timeout_s=1.5,
        context="frame 7",
    )
    read = read_operation(write_operation(operation), Deaf(), Interview, untold)
    assert read.listener is None
    assert read.client is None
    assert isinstance(read.codec, JsonCodec)
    fields = ("kind", "payload", "request_id", "timeout_s", "context")
    assert [getattr(read, name) for name in fields] == [getattr(operation, name) for name in fields]
