"""Generates `openenv_grpc.v1` from the protos beside this file.

Runs as the build hook of every install, editable ones included, and as
`python proto/generate.py` from the Makefile.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO = Path(__file__).resolve().parent
SOURCE = PROTO.parent / "src"
PACKAGE = "openenv_grpc/v1"
INCLUDES = [f"-I{PROTO}", f"-I{files('grpc_tools') / '_proto'}"]

# `ImageFile.buf_extension` (field 8042, a message) with `is_import` (field 1) set: what tells
# `buf generate` that a file of the image is a dependency, for which it generates nothing.
BUF_IS_IMPORT = bytes([0xD2, 0xF6, 0x03, 0x02, 0x08, 0x01])


def generate() -> None:
    """Writes the package anew, so that nothing edited by hand survives."""
    target = SOURCE / PACKAGE
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.iterdir():
        if stale.is_file():
            stale.unlink()
    (target / "__init__.py").write_text('"""Generated. Edit proto/ instead."""\n', encoding="utf-8")
    outputs = [
        f"--{plugin}_out={SOURCE}" for plugin in ("python", "grpc_python", "mypy", "mypy_grpc")
    ]
    _protoc(*outputs)
    (target / "proto.binpb").write_bytes(_image())


def _image() -> bytes:
    """Returns the protos as a Buf image: a descriptor set that tells sources from dependencies."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set.binpb"
        _protoc(f"--descriptor_set_out={path}", "--include_imports", "--include_source_info")
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    image = b""
    for file in descriptors.file:
        content = file.SerializeToString(deterministic=True)
        if not file.name.startswith(PACKAGE):
            content += BUF_IS_IMPORT
        image += b"\x0a" + _varint(len(content)) + content
    return image


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _protoc(*arguments: str) -> None:
    # The plug-ins are programs beside the interpreter, which need not be on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    sources = sorted(str(path) for path in (PROTO / PACKAGE).glob("*.proto"))
    if protoc.main(["protoc", *INCLUDES, *arguments, *sources]) != 0:
        raise RuntimeError("protoc failed; its own message is above")


class GenerateHook(BuildHookInterface[Any]):
    """Has hatchling generate before it packs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generates, and adds what was generated to the wheel."""
        generate()
        build_data["artifacts"].append(f"src/{PACKAGE}/*")


if __name__ == "__main__":
    generate()
