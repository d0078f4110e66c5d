"""Python values to `Payload` messages and back: JSON, with arrays and bytes beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from openenv_grpc.errors import (
    Effect,
    InvalidRequestError,
    NotSupportedError,
    UnserializableResultError,
)
from openenv_grpc.serialization import dump_json, json_kind, parse_json
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire import tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from openenv_grpc.wire.peeling import Peeled

Apart = list[tuple[str, "NDArray[Any] | bytes | bytearray"]]
"""Arrays and bytes that go beside the JSON, by their JSON pointers."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_LISTS = (list, tuple)
_CONTAINERS = (dict, list, tuple)
_BYTES = (bytes, bytearray)
_INDEX = re.compile("0|[1-9][0-9]{0,9}")


def encode_payload(message: payload_pb2.Payload, value: object) -> None:
    """Fills a payload in place. Arrays and bytes go beside the JSON, never into it.

    Raises:
        UnserializableResultError: the value holds something that JSON cannot carry.
    """
    text, apart = take_apart(value)
    message.json = text.decode()
    for pointer, lifted in apart:
        attachment = message.attachments.add()
        attachment.pointer = pointer
        tensors.encode_tensor(attachment.tensor, lifted)


def take_apart(value: Any) -> tuple[bytes, Apart]:
    """Returns the JSON of a value, and the arrays and bytes that go beside it.

    Raises:
        UnserializableResultError: the value holds something that JSON cannot carry.
    """
    apart: Apart = []
    try:
        if type(value) is dict or isinstance(value, _CONTAINERS):
            value = _lift(value, "", apart)
        elif isinstance(value, _BYTES) or tensors.is_array(value):
            apart.append(("", value))
            value = None
    except RecursionError as error:
        raise UnserializableResultError(
            "the value is nested too deeply, or holds itself", effect=Effect.DONE
        ) from error
    return dump_json(value, non_finite="strings"), apart


def _lift(value: Any, pointer: str, apart: Apart) -> Any:
    """Returns the container with `None` for arrays and bytes, which go `apart`.

    What holds none is returned as it is, not copied: that is nearly all.
    """
    items: Iterable[tuple[Any, Any]] = (
        value.items() if isinstance(value, dict) else enumerate(value)
    )
    lifted = value
    for key, item in items:
        kind = type(item)
        if kind in _SCALARS or (kind is dict and not item):
            continue  # before its pointer is made, which costs more than all the rest
        if isinstance(item, _CONTAINERS):
            changed = item if is_flat(item) else _lift(item, _below(pointer, key), apart)
        elif isinstance(item, _BYTES) or tensors.is_array(item):
            apart.append((_below(pointer, key), item))
            changed = None
        else:
            continue
        if changed is item:
            continue
        if lifted is value:
            lifted = dict(value) if isinstance(value, dict) else list(value)
        lifted[key] = changed
    return lifted


def is_flat(value: object) -> bool:
    """Tells whether a value is a container of nothing but scalars."""
    if isinstance(value, dict):
        return _SCALARS.issuperset(map(type, value.values()))
    return isinstance(value, _LISTS) and _SCALARS.issuperset(map(type, value))


def pointer_to(name: str) -> str:
    """Returns the JSON pointer to a field of the whole."""
    return _below("", name)


def _below(pointer: str, key: object) -> str:
    """Returns the JSON pointer to what a container has under a key or index."""
    if type(key) is str and "~" not in key and "/" not in key:  # as in nearly all
        return f"{pointer}/{key}"
    if type(key) not in (str, int):  # of an enumeration, say
        (key,) = parse_json(dump_json({key: None}, non_finite="strings"))  # as the JSON has it
    part = str(key).replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{part}"


def decode_payload(message: payload_pb2.Payload, peeled: Peeled | None = None) -> JsonValue:
    """Returns the value, with arrays and bytes where they belong.

    `peeled` has the bytes of one that were taken out of the message.

    Raises:
        InvalidRequestError: it is no JSON, or an attachment does not fit.
    """
    value = parse_json(message.json or text_of(message))
    attachments = message.attachments
    if not attachments:
        return value
    for place, attachment in enumerate(attachments[:]):  # a list is gone through sooner
        apart = peeled.data if peeled is not None and peeled.attachment == place else None
        value = _insert(value, attachment, apart)
    return value


def decode_object(
    message: payload_pb2.Payload, *, what: str, peeled: Peeled | None = None
) -> dict[str, JsonValue]:
    """Returns the value, which has to be an object. Raises `InvalidRequestError`."""
    value = decode_payload(message, peeled)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{what} have to be a JSON object, not {json_kind(value)}")
    return value


def text_of(message: payload_pb2.Payload) -> str:
    """Returns the JSON of a payload. Raises `InvalidRequestError`, `NotSupportedError`."""
    match message.WhichOneof("content"):
        case "json":
            return message.json
        case "typed":
            raise NotSupportedError(
                "payloads are taken as `json`; the environment has no message type of its own"
            )
        case _:
            raise InvalidRequestError("a payload has no content; set `json`")


def _insert(
    value: JsonValue, attachment: payload_pb2.Attachment, apart: memoryview | None
) -> JsonValue:
    """Puts an attachment into its place, and returns the whole."""
    pointer = attachment.pointer
    content = tensors.decode_tensor(attachment.tensor, apart)
    if pointer == "":
        if value is not None:
            raise InvalidRequestError("an attachment for the whole payload needs the JSON `null`")
        return content
    field = pointer[1:]
    plain = pointer[0] == "/" and "/" not in field and "~" not in field
    if plain and isinstance(value, dict) and value.get(field, "") is None:
        value[field] = content  # a field of the whole, as nearly all are
        return value
    *path, last = _parts(pointer)
    container = value
    for part in path:
        container = _child(container, part, pointer)
    if _child(container, last, pointer) is not None:
        raise InvalidRequestError(
            f"the JSON has to have null at {pointer}, where an attachment goes"
        )
    container[int(last) if isinstance(container, list) else last] = content
    return value


def _parts(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise InvalidRequestError(
            f"an attachment's pointer starts with a slash, unlike {pointer!r}"
        )
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _child(container: JsonValue, part: str, pointer: str) -> JsonValue:
    if isinstance(container, dict) and part in container:
        return container[part]
    if isinstance(container, list) and _INDEX.fullmatch(part):
        index = int(part)
        if index < len(container):
            return container[index]
    raise InvalidRequestError(f"the JSON has no place {pointer}, where an attachment goes")
