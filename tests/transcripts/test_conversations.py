"""Our server holds the conversations of `proto/conformance`, by gRPC and by WebSocket."""

from __future__ import annotations

from pathlib import Path

import grpc.aio
import pytest

from openenv_grpc import Server
from openenv_grpc.v1 import admin_pb2, admin_pb2_grpc, session_pb2
from tests.transcripts.replay import Mismatch, Replay, streams_to
from tests.transcripts.transcripts import FOLDER, Names, read

CONVERSATIONS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("door", ["grpc", "http"])
@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
async def test_the_server_holds_the_conversation(path: Path, door: str) -> None:
    async with Server("echo_env", grpc_port=0, http_port=0) as server:
        address = server.grpc_address if door == "grpc" else server.http_address

        async def drain() -> None:
            async with grpc.aio.insecure_channel(server.grpc_address) as channel:
                stub = admin_pb2_grpc.AdminServiceStub(channel)
                await stub.Drain(admin_pb2.DrainRequest())

        async with streams_to(f"{door}://{address}") as open_stream:
            await Replay(path, open_stream, drain).run()


async def test_an_answer_that_differs_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(
        "# Steps are counted.\n>>> a\noperations { request_id: 1 get_state {} }\n<<< a\n"
        "outcomes { request_id: 1 get_state { step_count: 7 } }\n"
    )

    async def nothing() -> None:
        return None

    async with (
        Server("echo_env", grpc_port=0, http_port=None) as server,
        streams_to(f"grpc://{server.grpc_address}") as open_stream,
    ):
        with pytest.raises(Mismatch, match=r"wrong\.txt:4: expected\n"):
            await Replay(path, open_stream, nothing).run()


def test_a_line_outside_of_a_message_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loose.txt"
    path.write_text("=== a ends\noperations {}\n")
    with pytest.raises(ValueError, match=r"loose\.txt:2: .* no message"):
        read(path)


def test_a_name_takes_a_value_once() -> None:
    names = Names()
    expected = session_pb2.Outcome(open=session_pb2.OpenResult(session_id="$SESSION"))
    first, other = (
        session_pb2.Outcome(open=session_pb2.OpenResult(session_id=session_id))
        for session_id in ("one", "two")
    )
    assert names.fits_outcome(expected, first)
    assert names.fits_outcome(expected, first)
    assert not names.fits_outcome(expected, other)


def test_numbers_count_even_where_a_conversation_has_none() -> None:
    expected = session_pb2.Outcome(close=session_pb2.CloseResult())
    assert not Names().fits_outcome(
        expected, session_pb2.Outcome(request_id=1, close=session_pb2.CloseResult())
    )
