"""The services that come with gRPC and that few servers are asked for: each loads when it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import grpc

CHANNELZ = "grpc.channelz.v1.Channelz"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"

_CHANNELZ_MODULE = "grpc_channelz.v1.channelz"
_REFLECTION_MODULE = "grpc_reflection.v1alpha.reflection"


class StockService(grpc.GenericRpcHandler):
    """A service whose package is imported by its first call."""

    def __init__(self, name: str, module: str, add: Callable[[Any], None]) -> None:
        """Sees to it that the package is there.

        Raises:
            ImportError: it is not.
        """
        if find_spec(module) is None:
            raise ImportError(f"{module} is not installed; install openenv-grpc anew", name=module)
        self._prefix = f"/{name}/"
        self._add = add
        self._added: list[grpc.GenericRpcHandler] = []

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Returns the method that is called, if it is of this service."""
        if not handler_call_details.method.startswith(self._prefix):
            return None
        if not self._added:
            self._add(self)
        return self._added[0].service(handler_call_details)

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Takes the methods, in the place of a server."""
        self._added.extend(handlers)

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Any]) -> None:
        """Takes nothing: they are the same."""


def channelz() -> StockService:
    """Makes the service that shows gRPC's own channels and sockets."""

    def add(server: Any) -> None:
        stubs = import_module("grpc_channelz.v1.channelz_pb2_grpc")
        servicer = import_module(_CHANNELZ_MODULE).aio.ChannelzServicer()
        stubs.add_ChannelzServicer_to_server(servicer, server)

    return StockService(CHANNELZ, _CHANNELZ_MODULE, add)


def reflection(services: Sequence[str]) -> StockService:
    """Makes the service that shows what other services there are, and their messages."""

    def add(server: Any) -> None:
        import_module("grpc_channelz.v1.channelz_pb2")  # of which it shows the messages too
        stubs = import_module("grpc_reflection.v1alpha.reflection_pb2_grpc")
        servicer = import_module(_REFLECTION_MODULE).aio.ReflectionServicer(services)
        stubs.add_ServerReflectionServicer_to_server(servicer, server)

    return StockService(REFLECTION, _REFLECTION_MODULE, add)
