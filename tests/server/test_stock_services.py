"""The services that come with gRPC: that each loads when it is called, and what it shows then."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from grpc_channelz.v1 import channelz_pb2
from grpc_reflection.v1alpha import reflection as stock_reflection

from openenv_grpc.server import stock_services
from openenv_grpc.server.stock_services import CHANNELZ, REFLECTION, StockService

FIRST_CALL = """
import sys
from types import SimpleNamespace
from google.protobuf import descriptor_pool
from openenv_grpc.server import stock_services
service = stock_services.reflection(stock_services.CHANNELZ)
print(any(name.startswith("grpc_reflection.v1alpha.") for name in sys.modules))
method = f"/{stock_services.REFLECTION}/ServerReflectionInfo"
assert service.service(SimpleNamespace(method=method)).stream_stream is not None
print(descriptor_pool.Default().FindFileContainingSymbol(stock_services.CHANNELZ).package)
"""


def call(method: str) -> Any:
    return SimpleNamespace(method=method)


def test_their_names_are_those_of_their_packages() -> None:
    assert stock_reflection.SERVICE_NAME == REFLECTION
    assert channelz_pb2.DESCRIPTOR.services_by_name["Channelz"].full_name == CHANNELZ


def test_reflection_loads_with_its_first_call_and_knows_channelz_then() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, timeout=60, check=True
    )

    assert shown.stdout.split() == ["False", "grpc.channelz.v1"]


def test_a_method_of_another_service_is_none_of_theirs() -> None:
    service = stock_services.channelz()

    assert service.service(call("/grpc.channelz.v1.ChannelzOther/GetServers")) is None
    assert service.service(call(f"/{CHANNELZ}/NoSuchMethod")) is None
    assert service.service(call(f"/{CHANNELZ}/GetServers")) is not None


@pytest.mark.parametrize("module", ["no_such_package.channelz", "grpc_channelz.no_such_module"])
def test_a_package_that_is_missing_fails_before_anybody_calls(module: str) -> None:
    with pytest.raises(ImportError, match="no_such"):
        StockService(CHANNELZ, module, lambda server: None)
