"""The contract itself: the protos as a Buf image, for who wants stubs of them."""

from __future__ import annotations

from importlib import resources


def read_image() -> bytes:
    """Returns the Buf image of the package `openenv_grpc.v1`."""
    return resources.files("openenv_grpc.v1").joinpath("proto.binpb").read_bytes()
