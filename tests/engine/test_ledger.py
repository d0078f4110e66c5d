from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.engine.ledger import Ledger
from openenv_grpc.errors import (
    InternalError,
    OutcomeForgottenError,
    OutOfOrderError,
    RequestConflictError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from tests.engine.talking import CODEC


def numbered(number: int | None, digest: bytes = b"same") -> Operation:
    return Operation(kind=Kind.STEP, codec=CODEC, request_id=number, digest=digest)


def ignore(reply: Reply) -> None:
    pass


def do(ledger: Ledger, operation: Operation, content: bytes = b"done") -> None:
    assert not ledger.is_repeat(operation)
    ledger.begin(operation)
    assert not ledger.finish(Reply(operation, content))


def test_the_next_number_is_new_and_a_lower_one_is_a_repeat() -> None:
    ledger = Ledger()
    do(ledger, numbered(1))
    assert not ledger.is_repeat(numbered(2))
    assert ledger.is_repeat(numbered(1))


def test_a_higher_number_is_out_of_order_and_uses_up_nothing() -> None:
    ledger = Ledger()
    with pytest.raises(OutOfOrderError, match="request_id 2 came where 1 is next"):
        ledger.is_repeat(numbered(2))
    assert ledger.last_id == 0


def test_a_repeat_gets_the_same_bytes_and_error() -> None:
    ledger = Ledger()
    first = numbered(1)
    ledger.begin(first)
    ledger.finish(Reply(first, b"bytes", InternalError("broken")))
    repeat = numbered(1)
    answer = ledger.repeat(repeat, ignore)
    assert answer is not None
    assert (answer.operation, answer.content, str(answer.error)) == (
        repeat,
        b"bytes",
        "broken [INTERNAL]",
    )


def test_a_kept_error_holds_on_to_no_traceback() -> None:
    ledger = Ledger()
    first = numbered(1)
    ledger.begin(first)
    try:
        raise InternalError("broken") from ValueError()
    except InternalError as error:
        ledger.finish(Reply(first, b"", error))
    answer = ledger.repeat(numbered(1), ignore)
    assert answer is not None
    assert answer.error is not None
    assert answer.error.__cause__ is None
    assert answer.error.__traceback__ is None


def test_a_repeat_with_other_content_is_a_conflict() -> None:
    ledger = Ledger()
    do(ledger, numbered(1))
    with pytest.raises(RequestConflictError):
        ledger.repeat(numbered(1, b"other"), ignore)


def test_a_repeat_of_what_still_runs_waits_for_its_answer() -> None:
    ledger = Ledger()
    first, repeat = numbered(1), numbered(1)
    ledger.begin(first)
    assert ledger.repeat(repeat, ignore) is None
    assert ledger.finish(Reply(first, b"done")) == [(repeat, ignore)]


def test_a_repeat_that_waits_can_be_withdrawn() -> None:
    ledger = Ledger()
    first, repeat = numbered(1), numbered(1)
    ledger.begin(first)
    ledger.repeat(repeat, ignore)
    assert ledger.withdraw(repeat) is ignore
    assert ledger.withdraw(repeat) is None
    assert ledger.finish(Reply(first, b"done")) == []


def test_an_operation_without_a_number_gets_the_next_and_cannot_be_repeated() -> None:
    ledger = Ledger()
    operation = numbered(0)
    do(ledger, operation)
    assert operation.request_id == 1
    with pytest.raises(OutcomeForgottenError):
        ledger.repeat(numbered(1), ignore)


def test_what_stands_outside_of_the_sequence_uses_up_no_number() -> None:
    ledger = Ledger()
    operation = numbered(None)
    assert not ledger.is_repeat(operation)
    ledger.begin(operation)
    assert not ledger.finish(Reply(operation, b"done"))
    assert ledger.last_id == 0


def test_acknowledged_answers_are_forgotten_and_later_ones_kept() -> None:
    ledger = Ledger()
    for number in (1, 2, 3):
        do(ledger, numbered(number))
    ledger.acknowledge(2)
    with pytest.raises(OutcomeForgottenError):
        ledger.repeat(numbered(2), ignore)
    assert ledger.repeat(numbered(3), ignore) is not None


def test_only_so_many_answers_are_kept() -> None:
    ledger = Ledger(max_records=2)
    for number in (1, 2, 3):
        do(ledger, numbered(number))
    with pytest.raises(OutcomeForgottenError):
        ledger.repeat(numbered(1), ignore)
    assert ledger.repeat(numbered(2), ignore) is not None


def test_only_so_many_bytes_are_kept() -> None:
    ledger = Ledger(max_bytes=10)
    do(ledger, numbered(1), b"x" * 8)
    do(ledger, numbered(2), b"x" * 8)
    with pytest.raises(OutcomeForgottenError):
        ledger.repeat(numbered(1), ignore)
    assert ledger.repeat(numbered(2), ignore) is not None
    do(ledger, numbered(3), b"x" * 11)
    with pytest.raises(OutcomeForgottenError):
        ledger.repeat(numbered(3), ignore)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 12), st.sampled_from([b"a", b"b"])),
            st.tuples(st.just("finish"), st.integers(1, 12), st.just(b"")),
            st.tuples(st.just("acknowledge"), st.integers(0, 12), st.just(b"")),
        ),
        max_size=60,
    )
)
def test_whatever_is_sent_nothing_runs_twice_and_each_question_gets_one_answer(
    moves: list[tuple[str, int, bytes]],
) -> None:
    ledger = Ledger(max_records=3, max_bytes=40)
    ran: dict[int, Operation] = {}
    finished: set[int] = set()
    answers: dict[int, list[bytes]] = {}
    questions = 0
    refused = 0
    waiting = 0
    for move, number, digest in moves:
        match move:
            case "ask":
                questions += 1
                operation = numbered(number, digest)
                try:
                    if ledger.is_repeat(operation):
                        answer = ledger.repeat(operation, ignore)
                        assert ran[number].digest == digest
                        if answer is None:
                            assert number not in finished
                            waiting += 1
                        else:
                            answers[number].append(answer.content)
                        continue
                except OutOfOrderError:
                    assert number > ledger.last_id + 1
                    refused += 1
                    continue
                except (RequestConflictError, OutcomeForgottenError):
                    assert number in ran
                    refused += 1
                    continue
                ledger.begin(operation)
                assert operation.request_id is not None
                assert operation.request_id not in ran
                ran[operation.request_id] = operation
                answers[operation.request_id] = []
            case "finish" if number in ran and number not in finished:
                finished.add(number)
                content = f"answer {number}".encode()
                for _ in ledger.finish(Reply(ran[number], content)):
                    answers[number].append(content)
                    waiting -= 1
                answers[number].append(content)
            case "acknowledge":
                ledger.acknowledge(number)
    assert list(ran) == list(range(1, ledger.last_id + 1))
    assert all(set(given) <= {f"answer {number}".encode()} for number, given in answers.items())
    unfinished = len(ran.keys() - finished)
    assert sum(map(len, answers.values())) + refused + waiting + unfinished == questions
