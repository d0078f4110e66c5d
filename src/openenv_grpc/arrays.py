"""Array fields: of one element type and one shape, whatever form their content comes in."""

from __future__ import annotations

import base64
import binascii
import functools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError
from pydantic_core import core_schema as schemas

from openenv_grpc.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ITEM_BYTES = {
    "bool": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
"""Types of elements that travel, and the bytes of an element."""

MAX_DIMENSIONS = 32
MAX_BYTES = 2**62
"""What numpy could never hold, not even an array without elements of such a shape."""

FOR_JSON = {"arrays": "json"}
"""Context for pydantic: arrays become what their fields say for JSON, instead of staying arrays."""

KEYWORD = "x-openenv-array"
"""Where the JSON Schema of an array field tells its `dtype` and `shape`."""

_FORM = {"dtype", "shape", "data"}

_WRITTEN = schemas.json_or_python_schema(
    json_schema=schemas.any_schema(),
    python_schema=schemas.any_schema(
        serialization=schemas.format_ser_schema("", when_used="json"),  # that is, not here
    ),
)
"""What writing an array field gives. In Python it is left as it is; else pydantic would look
through all the types that it knows, which takes longer than all the rest."""


@dataclass(frozen=True, slots=True)
class Array:
    """Says of an array field what its type does not: shape, and form in JSON.

    ```python
    class Frame(Observation):
        pixels: Annotated[NDArray[np.uint8], Array((84, 84, 4))]
        points: Annotated[NDArray[np.float32], Array((None, 3), json="base64")]
    ```

    The field holds a numpy array. It takes one, nested lists, the object `{"dtype", "shape",
    "data"}` with base64, a torch tensor or a PIL image. An array of another element type is
    refused, not converted; numbers in lists have to fit the type. What came as bytes is read-only.
    """

    shape: Sequence[int | None] | None = None
    """Length of each dimension, `None` where any will do; `None` as a whole for any shape."""
    dtype: str = ""
    """Type of the elements; empty takes it from the annotation, `NDArray[np.uint8]`."""
    json: Literal["list", "base64"] = "list"
    """Form where there is only JSON: nested lists, or the object with base64. On our own wire
    arrays travel as bytes in any case."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        kind = _Kind(self.dtype or _annotated_dtype(source), self.shape, self.json)
        if kind.dtype not in ITEM_BYTES:
            raise ConfigurationError(
                f"an array field's elements are {kind.dtype or 'of no type'}: annotate it "
                "NDArray[np.float32] or say Array(dtype=); it may be " + ", ".join(ITEM_BYTES)
            )
        return schemas.no_info_plain_validator_function(
            kind.read,
            serialization=schemas.plain_serializer_function_ser_schema(
                kind.write, info_arg=True, return_schema=_WRITTEN
            ),
            metadata={"pydantic_js_functions": [kind.describe]},
        )


def _annotated_dtype(source: Any) -> str:
    """Reads the element type off `NDArray[...]`; empty if it tells none."""
    arguments = get_args(source)
    scalar = get_args(arguments[1]) if len(arguments) == 2 else ()
    if not scalar or not isinstance(scalar[0], type):
        return ""
    import numpy  # an annotation that names its types has imported it

    try:
        return str(numpy.dtype(scalar[0]).name)
    except TypeError:  # an abstract type, as `np.floating`
        return ""


@dataclass(frozen=True, slots=True)
class _Kind:
    """An array field, its element type known."""

    dtype: str
    shape: Sequence[int | None] | None
    json: str

    def read(self, value: Any) -> NDArray[Any]:
        """Makes an array of whatever a field is given. Raises `PydanticCustomError`."""
        dtype = numpy_dtype(self.dtype)
        if isinstance(value, array_type()):
            if value.dtype is dtype and value.shape == self.shape:
                return value  # as nearly all are; what follows would find the same
            array = value
        elif isinstance(value, Mapping):
            array = self._of_base64(value)
        elif isinstance(value, list | tuple | int | float):
            array = self._of_numbers(value)
        else:
            array = _of_foreign(value)
        if array.dtype != dtype and array.dtype.newbyteorder("=") != dtype:
            raise PydanticCustomError(
                "array_dtype",
                "The array has elements of {found}, not of {dtype}; convert it",
                {"found": array.dtype.name, "dtype": self.dtype},
            )
        self._check_shape(array.shape)
        return array if array.dtype.isnative else array.astype(dtype)

    def _check_shape(self, found: Sequence[int]) -> None:
        shape = self.shape
        if shape is None or shape == found:
            return
        fits = len(found) == len(shape) and all(
            length in (None, actual) for length, actual in zip(shape, found, strict=True)
        )
        if not fits:
            raise PydanticCustomError(
                "array_shape",
                "The array has the shape {found}, not {shape}",
                {"found": list(found), "shape": _shown(shape)},
            )

    def _of_base64(self, form: Mapping[str, Any]) -> NDArray[Any]:
        """Reads the object with base64; its claims are checked before anything is decoded."""
        shape, data = form.get("shape"), form.get("data")
        if form.keys() != _FORM or not isinstance(shape, list | tuple) or not isinstance(data, str):
            raise _malformed("an object has dtype, shape and data in base64")
        if form["dtype"] != self.dtype:
            raise _malformed(f"the elements are {self.dtype}, not {form['dtype']!r}")
        if not all(type(length) is int for length in shape):
            raise _malformed("the lengths in a shape are integers")
        size_bytes = size_of(shape, self.dtype)
        if size_bytes is None:
            raise _malformed(f"{list(shape)} is no shape")
        self._check_shape(shape)
        if len(data) // 4 * 3 < size_bytes:  # an upper bound of what it can hold
            raise _malformed(f"the shape asks for {size_bytes} bytes, and data has fewer")
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise _malformed(f"data is no base64: {error}") from None
        if len(content) != size_bytes:
            raise _malformed(f"the shape asks for {size_bytes} bytes, and data has {len(content)}")
        if self.dtype == "bool" and content.translate(None, b"\0\1"):
            raise _malformed("elements of bool are bytes 0 and 1")
        return view(content, self.dtype, shape)

    def _of_numbers(self, value: Any) -> NDArray[Any]:
        """Reads nested lists, whose numbers are checked before numpy sees them."""
        import numpy

        depth = _depth(value) if self.shape is None else len(self.shape)
        if depth > MAX_DIMENSIONS:
            raise _malformed(f"an array has at most {MAX_DIMENSIONS} dimensions")
        try:
            numbers = _numbers(self.dtype, depth).validate_python(value)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = "".join(f"/{index}" for index in wrong["loc"])
            raise PydanticCustomError(
                "array_element",
                "{place}{message}",
                {"place": place and f"{place}: ", "message": wrong["msg"]},
            ) from None
        try:
            with numpy.errstate(over="ignore"):  # beyond float32 is infinite
                return numpy.array(numbers, numpy_dtype(self.dtype))
        except ValueError:
            raise _malformed("the lists differ in length") from None

    def write(self, value: Any, info: Any) -> Any:
        """Leaves an array as it is, unless JSON is asked for."""
        if value is None or not (info.mode == "json" or _asks_for_json(info.context)):
            return value
        import numpy

        array = numpy.asarray(value)
        if self.json == "list":
            return array.tolist() if info.mode == "json" else array
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        return {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "data": base64.b64encode(little.tobytes()).decode(),
        }

    def describe(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Writes the JSON Schema of the form that JSON has."""
        shape = None if self.shape is None else list(self.shape)
        described: JsonSchemaValue
        if self.json == "base64":
            described = {
                "type": "object",
                "properties": {
                    "dtype": {"const": self.dtype},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                    "data": {"type": "string", "contentEncoding": "base64"},
                },
                "required": sorted(_FORM),
            }
        elif shape is None:
            described = {"type": "array"}
        else:
            described = self._element()
            for length in reversed(shape):
                described = {"type": "array", "items": described}
                if length is not None:
                    described |= {"minItems": length, "maxItems": length}
        return {**described, KEYWORD: {"dtype": self.dtype, "shape": shape}}

    def _element(self) -> JsonSchemaValue:
        if self.dtype == "bool":
            return {"type": "boolean"}
        bounds = integer_range(self.dtype)
        if bounds is None:
            return {"type": "number"}
        return {"type": "integer", "minimum": bounds[0], "maximum": bounds[1]}


def _asks_for_json(context: Mapping[str, Any] | None) -> bool:
    return context is not None and context.get("arrays") == "json"


def _of_foreign(value: Any) -> NDArray[Any]:
    """Makes an array of a tensor, an image, or whatever numpy knows as one."""
    import numpy

    torch = sys.modules.get("torch")  # where it was never imported there are no tensors
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype is torch.bfloat16:  # numpy has none
            return view(value.view(torch.int16).numpy().tobytes(), "bfloat16", value.shape)
        found: NDArray[Any] = value.numpy()
        return found
    if isinstance(value, str | bytes | bytearray):
        raise _malformed(f"an array is no {type(value).__name__}")
    try:
        return numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise _malformed(f"{type(value).__name__} is no array: {error}") from None


def view(data: bytes | memoryview, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Returns bytes, little-endian and as many as the shape asks for, as a read-only array."""
    import numpy

    array: NDArray[Any] = numpy.ndarray(shape, numpy_dtype(dtype, little=True), data)
    if not array.flags.aligned:
        array = array.copy()
        array.flags.writeable = False
    return array


@functools.cache
def array_type() -> type[NDArray[Any]]:
    """Returns numpy's class of arrays."""
    import numpy  # an extra

    return numpy.ndarray


@functools.cache
def numpy_dtype(name: str, *, little: bool = False) -> Any:
    """Returns numpy's type of that name; bit patterns for `bfloat16` without ml_dtypes."""
    dtype = _numpy_dtype(name)
    return dtype.newbyteorder("<") if little and sys.byteorder == "big" else dtype


def _numpy_dtype(name: str) -> Any:
    import numpy

    if name == "bfloat16":
        try:
            import ml_dtypes  # numpy itself has no bfloat16
        except ImportError:
            return numpy.dtype("uint16")
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(name)


def size_of(shape: Sequence[int], dtype: str) -> int | None:
    """Returns the bytes of an array; `None` if no array has that shape."""
    if len(shape) > MAX_DIMENSIONS or (shape and min(shape) < 0):
        return None
    item_bytes = ITEM_BYTES[dtype]
    size_bytes = math.prod(shape) * item_bytes
    spanned = size_bytes or math.prod(filter(None, shape)) * item_bytes
    return size_bytes if spanned <= MAX_BYTES else None


def integer_range(dtype: str) -> tuple[int, int] | None:
    """Returns the least and the greatest value of an integer type; `None` for others."""
    bits = 8 * ITEM_BYTES[dtype]
    if dtype.startswith("uint"):
        return 0, 2**bits - 1
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.startswith("int") else None


@functools.cache
def _numbers(dtype: str, depth: int) -> SchemaValidator:
    """Reads lists nested that deep of numbers of a type."""
    bounds = integer_range(dtype)
    schema: CoreSchema
    if dtype == "bool":
        schema = schemas.bool_schema(strict=True)
    elif bounds is None:
        schema = schemas.float_schema()  # not strict: "NaN" and "Infinity" are numbers on our wire
    else:
        schema = schemas.int_schema(strict=True, ge=bounds[0], le=bounds[1])
    for _ in range(depth):
        schema = schemas.list_schema(schema)
    return SchemaValidator(schema)


def _depth(value: Any) -> int:
    """Tells how deep lists are nested, at their first elements."""
    depth = 0
    while isinstance(value, list | tuple) and depth <= MAX_DIMENSIONS:
        depth += 1
        value = value[0] if value else None
    return depth


def _shown(shape: Sequence[int | None]) -> list[int | str]:
    return ["any" if length is None else length for length in shape]


def _malformed(text: str) -> PydanticCustomError:
    return PydanticCustomError("array_form", "The array is malformed: {text}", {"text": text})
