"""Reads the conversations of `proto/conformance`; its README says what they are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from openenv_grpc.v1 import session_pb2

FOLDER = Path(__file__).resolve().parent.parent.parent / "proto" / "conformance"

_MARKS = re.compile(r"(?:>>> (?P<send>\w+)|<<< (?P<expect>\w+)|=== (?P<end>\w+) ends|=== drain)")
_ALWAYS = ("session", "request_id", "control_id")


class Act(Enum):
    """What a block is."""

    SEND = "send"
    EXPECT = "expect"
    END = "end"
    DRAIN = "drain"


@dataclass
class Block:
    """One block, and where it begins."""

    act: Act
    stream: str
    line: int
    text: str = ""


def read(path: Path) -> list[Block]:
    """Reads a conversation. Raises `ValueError` where it makes no sense."""
    blocks: list[Block] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        marked = _MARKS.fullmatch(line.strip())
        if marked is not None:
            kind = marked.lastgroup
            act = Act.DRAIN if kind is None else Act(kind)
            blocks.append(Block(act, marked[kind] if kind else "", number))
        elif not blocks or blocks[-1].act not in (Act.SEND, Act.EXPECT):
            raise ValueError(f"{path.name}:{number}: this line belongs to no message")
        else:
            blocks[-1].text += line + "\n"
    return blocks


@dataclass
class Names:
    """What `$NAME` stands for, so far."""

    values: dict[str, str] = field(default_factory=lambda: {"LONG": "x" * 2000})

    def request(self, block: Block) -> session_pb2.ConnectRequest:
        """Returns what a block sends."""
        text = re.sub(r"\$([A-Z]+)", lambda name: self.values[name[1]], block.text)
        return text_format.Parse(text, session_pb2.ConnectRequest())

    def response(self, block: Block) -> session_pb2.ConnectResponse:
        """Returns what a block expects, with its names."""
        return text_format.Parse(block.text, session_pb2.ConnectResponse())

    def fits(self, expected: Message, came: Message) -> bool:
        """Tells whether a message has all that is expected of it, and learns names from it."""
        return all(
            self._has(descriptor.name, value, came) for descriptor, value in expected.ListFields()
        )

    def fits_outcome(self, expected: session_pb2.Outcome, came: session_pb2.Outcome) -> bool:
        """The same of an outcome, of which numbers and kind count even if they are not set."""
        same = all(getattr(expected, name) == getattr(came, name) for name in _ALWAYS)
        kind = expected.WhichOneof("kind")
        return same and kind == came.WhichOneof("kind") and self.fits(expected, came)

    def _has(self, name: str, expected: Any, came: Message) -> bool:
        value = getattr(came, name)
        if isinstance(expected, Message):
            return came.HasField(name) and self.fits(expected, value)
        if isinstance(expected, str) and expected.startswith("$"):
            return bool(value) and self.values.setdefault(expected[1:], value) == value
        if isinstance(expected, (str, bytes, int, float)):
            return bool(expected == value)
        return len(expected) == len(value) and all(map(self.fits, expected, value))
