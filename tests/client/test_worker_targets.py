from __future__ import annotations

import pytest

from openenv_grpc.client.urls import parse_url
from openenv_grpc.client.worker_targets import worker_targets
from openenv_grpc.crew import Crew, WorkerAddress


def crew(worker: int = 0, *, public: bool = False) -> Crew:
    return Crew(
        server_id="s",
        worker=worker,
        size=2,
        addresses=tuple(
            WorkerAddress(
                grpc_port=50051 + number,
                http_port=80 + number,
                unix_path="/run/server.sock" + (f".{number}" if number else ""),
                http_unix_path="/run/web.sock" + (f".{number}" if number else ""),
                public_url=f"https://public.example/{number}" if public else "",
            )
            for number in range(2)
        ),
    )


def found(url: str, of: Crew) -> list[str]:
    return [target.uri for target in worker_targets(parse_url(url), of)]


@pytest.mark.parametrize(
    ("url", "uris"),
    [
        ("grpc://there:50051", ["there:50051", "there:50052"]),
        ("grpc://[::1]:50051", ["[::1]:50051", "[::1]:50052"]),
        ("http://there", ["ws://there/ws", "ws://there:81/ws"]),
        ("http://there:80/echo_env", ["ws://there:80/echo_env/ws", "ws://there:81/echo_env/ws"]),
        ("unix:run/server.sock", ["unix:run/server.sock", "unix:run/server.sock.1"]),
        ("unix:./server.sock", ["unix:./server.sock", "unix:server.sock.1"]),
        ("http+unix:run/web.sock", ["http+unix:run/web.sock", "http+unix:run/web.sock.1"]),
    ],
    ids=[
        "gRPC",
        "IPv6",
        "the port of HTTP",
        "a path",
        "a socket elsewhere",
        "as it was written",
        "a socket for HTTP",
    ],
)
def test_workers_are_where_their_ports_are_on_the_host_that_was_dialled(
    url: str, uris: list[str]
) -> None:
    assert found(url, crew()) == uris


def test_the_worker_that_answers_need_not_be_the_first() -> None:
    assert found("grpc://there:50052", crew(1)) == ["there:50051", "there:50052"]


def test_a_public_url_comes_before_ports() -> None:
    assert found("https://public.example/1/echo_env", crew(1, public=True)) == [
        "wss://public.example/0/echo_env/ws",
        "wss://public.example/1/echo_env/ws",
    ]
    assert found("http://there", crew(public=True)) == ["ws://there/ws", "ws://there:81/ws"]


@pytest.mark.parametrize(
    "url",
    [
        "grpc://there:9000",
        "http://there:8000",
        "unix:other.sock",
        "http+unix:server.sock",
        "https://proxy.example",
    ],
)
def test_nothing_is_known_of_the_others_where_ports_or_names_are_mapped(url: str) -> None:
    assert found(url, crew()) == []
    assert found(url, crew(public=True)) == []


def test_a_socket_for_http_is_dialled_where_it_is() -> None:
    targets = worker_targets(parse_url("http+unix:/mounted/web.sock"), crew())

    assert [target.web_socket_path for target in targets] == [
        "/mounted/web.sock",
        "/mounted/web.sock.1",
    ]


def test_tls_stays() -> None:
    targets = worker_targets(parse_url("grpcs://there:50051"), crew())

    assert all(target.secure for target in targets)
