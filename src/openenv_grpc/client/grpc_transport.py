"""A `Connect` stream of gRPC: raw bytes in, raw bytes out."""

from __future__ import annotations

import asyncio
import os

import grpc.aio

from openenv_grpc.client.credentials import channel_credentials
from openenv_grpc.client.rpc_errors import error_of
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target
from openenv_grpc.errors import InvalidRequestError, UnavailableError

METHOD = "/openenv_grpc.v1.SessionService/Connect"

_LEAST_KEEPALIVE_S = 10.0
"""Servers count more frequent pings as abuse and hang up."""

_process_ids: set[int] = set()
"""Of those in which channels were made: this one, and those that it was forked from."""


class GrpcTransport:
    """One stream on a channel of its own."""

    def __init__(self, target: Target, options: ConnectionOptions) -> None:
        self._target = target.uri
        metadata = tuple((name.lower(), value) for name, value in options.headers)
        self._channel = open_channel(target, options)
        # Without serialisers grpc hands the bytes through.
        connect: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
        connect = self._channel.stream_stream(METHOD)
        self._call = connect(metadata=metadata)

    async def read(self) -> bytes | None:
        """See `Transport`."""
        try:
            data: object = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise error_of(error, target=self._target) from error
        return data if isinstance(data, bytes) else None  # else it is grpc.aio.EOF

    async def write(self, data: bytes) -> None:
        """See `Transport`."""
        try:
            await self._call.write(data)
        except grpc.aio.AioRpcError as error:
            raise error_of(error, target=self._target) from error
        except asyncio.InvalidStateError as error:
            raise UnavailableError(f"the stream to {self._target} has ended") from error

    async def close(self) -> None:
        """See `Transport`."""
        self._call.cancel()
        await self._channel.close()
        del self._call, self._channel  # the socket lives as long as anything refers to them


def open_channel(target: Target, options: ConnectionOptions) -> grpc.aio.Channel:
    """Makes a channel that nobody shares. Nothing is dialled before its first use.

    Raises:
        InvalidRequestError: a certificate cannot be read, or gRPC was used before a fork.
    """
    _check_fork(target)
    settings: list[tuple[str, int]] = [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", 50),
        # Equal channels of one process would share a socket otherwise, across event loops too.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if target.loopback:
        settings.append(("grpc.enable_http_proxy", 0))
    if options.ping_interval_s is not None and options.ping_timeout_s is not None:
        timeout_ms = int(options.ping_timeout_s * 1000)
        settings += [
            (
                "grpc.keepalive_time_ms",
                int(max(options.ping_interval_s, _LEAST_KEEPALIVE_S) * 1000),
            ),
            ("grpc.keepalive_timeout_ms", timeout_ms),
            ("grpc.http2.ping_timeout_ms", timeout_ms),
        ]
    if not target.secure:
        return grpc.aio.insecure_channel(target.uri, options=settings)
    credentials = channel_credentials(options.tls)
    return grpc.aio.secure_channel(target.uri, credentials, options=settings)


def _check_fork(target: Target) -> None:
    """Raises if gRPC lacks its threads here, since then a channel would never connect."""
    if _process_ids - {os.getpid()}:
        raise InvalidRequestError(
            f"gRPC was used before this process was forked, and cannot connect to {target.uri} in "
            "the child. Start the child by spawn or forkserver, or before the first client "
            "connects, or use the server's http:// URL"
        )
    _process_ids.add(os.getpid())
