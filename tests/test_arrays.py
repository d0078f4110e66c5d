"""Array fields: what they take, what they refuse, and how they travel by each door."""

from __future__ import annotations

import base64
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import aiohttp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as strategies
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, TypeAdapter, ValidationError

from openenv_grpc import Action, Array, EnvClient, Environment, GenericEnvClient, Observation, State
from openenv_grpc.arrays import FOR_JSON, ITEM_BYTES
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.errors import ConfigurationError, InvalidActionError
from tests.client.conftest import serve_environments

DTYPES = [name for name in ITEM_BYTES if name != "bfloat16"]


class Push(Action):
    forces: Annotated[NDArray[np.float32], Array((3,))]


class Frame(Observation):
    pixels: Annotated[NDArray[np.uint8], Array((2, None, 3))]
    points: Annotated[NDArray[np.float32], Array(json="base64")]


class Camera(Environment[Push, Frame, State]):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Frame:
        return Frame(pixels=np.zeros((2, 1, 3), np.uint8), points=[0.5])  # type: ignore[arg-type]

    def step(self, action: Push, timeout_s: float | None = None) -> Frame:
        assert isinstance(action.forces, np.ndarray)
        return Frame(pixels=np.full((2, 4, 3), 255, np.uint8), points=action.forces * 2)


class CameraClient(EnvClient[Push, Frame, State]):
    pass


CAMERA = EnvironmentDefinition(factory=Camera, action_type=Push, observation_type=Frame)


def field(dtype: str, **given: Any) -> TypeAdapter[NDArray[Any]]:
    return TypeAdapter(Annotated[np.ndarray, Array(dtype=dtype, **given)])


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda name: strategies.arrays(
            np.dtype(name), strategies.array_shapes(min_dims=0, max_side=4)
        )
    ),
    st.sampled_from(["list", "base64"]),
)  # fmt: skip
def test_an_array_comes_back_from_json_equal_and_of_its_type(
    array: NDArray[Any], form: str
) -> None:
    adapter = field(array.dtype.name, shape=array.shape, json=form)
    plain = adapter.dump_python(array, context=FOR_JSON)
    back = adapter.validate_python(plain.tolist() if form == "list" else plain)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")


def test_an_array_that_fits_is_taken_as_it_is() -> None:
    array = np.zeros((84, 84, 4), np.uint8)
    assert field("uint8", shape=(84, 84, 4)).validate_python(array) is array


def test_without_a_call_for_json_a_dump_holds_the_array_itself() -> None:
    frame = Frame(pixels=np.zeros((2, 0, 3), np.uint8), points=np.ones(2, np.float32))
    assert frame.model_dump()["points"] is frame.points
    assert '"points":{"dtype":"float32","shape":[2],"data":"AACAPwAAgD8="}' in (
        frame.model_dump_json()
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.zeros(3), "array_dtype"),
        (np.zeros(3, np.int64), "array_dtype"),
        (np.zeros((3, 1), np.float32), "array_shape"),
        (np.array([object()] * 3), "array_dtype"),
        ([1.0, 2.0], "array_shape"),
        ([1.0, 2.0, "x"], "array_element"),
        ([[1.0], 2.0, 3.0], "array_element"),
        ("abc", "array_form"),
        (b"123456789012", "array_form"),
        (None, "array_dtype"),
        ({"dtype": "float32", "shape": [3]}, "array_form"),
        ({"dtype": "float64", "shape": [3], "data": ""}, "array_form"),
        ({"dtype": "float32", "shape": [-3], "data": ""}, "array_form"),
        ({"dtype": "float32", "shape": [3.0], "data": "AAAAAAAAAAAAAAAA"}, "array_form"),
        ({"dtype": "float32", "shape": [3], "data": "AAAA"}, "array_form"),
        ({"dtype": "float32", "shape": [3], "data": "AAAAAAAAAAAAAAAAAAAA"}, "array_form"),
        ({"dtype": "float32", "shape": [3], "data": "*" * 16}, "array_form"),
        ({"dtype": "float32", "shape": [1] * 40, "data": "AAAAAAAA"}, "array_form"),
    ],
)
def test_what_does_not_fit_is_refused(value: object, kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Push(forces=value)  # type: ignore[arg-type]
    assert [(error["type"], error["loc"]) for error in caught.value.errors()] == [
        (kind, ("forces",))
    ]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("uint8", [256]), ("uint8", [-1]), ("int8", [128]), ("uint64", [2**64]), ("int32", [0.5]),
        ("int32", [True]), ("bool", [1]), ("uint8", [[1, 2], [3]]), ("float32", [[1.0], []]),
        ("uint8", ["x" * 100_000] + [""] * 10_000),
    ],
)  # fmt: skip
def test_numbers_in_lists_have_to_fit_the_type(dtype: str, value: list[Any]) -> None:
    with pytest.raises(ValidationError):
        field(dtype).validate_python(value)


def test_a_number_out_of_range_is_told_with_its_place() -> None:
    with pytest.raises(ValidationError, match="/1/0: Input should be less than or equal to 255"):
        field("uint8", shape=(2, 1)).validate_python([[1], [300]])


def test_infinities_and_nan_are_numbers_by_their_names() -> None:
    read = field("float32").validate_python(["NaN", "Infinity", "-Infinity"])
    assert np.array_equal(read, [np.nan, np.inf, -np.inf], equal_nan=True)


@pytest.mark.parametrize("shape", [[2**31], [2**62, 2**62], [0, 2**62, 2**62], [2**40, 1]])
def test_a_claim_of_gigabytes_is_refused_before_anything_is_allocated(shape: list[int]) -> None:
    adapter = field("uint8")
    form = {"dtype": "uint8", "shape": shape, "data": base64.b64encode(b"1234").decode()}
    tracemalloc.start()
    try:
        with pytest.raises(ValidationError):
            adapter.validate_python(form)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_images_are_arrays() -> None:
    image = Image.new("RGB", (5, 2), (1, 2, 3))
    pixels = field("uint8", shape=(2, 5, 3)).validate_python(image)
    assert pixels[1, 4].tolist() == [1, 2, 3]


class Tensor:
    """What is asked of a tensor of torch."""

    dtype = "torch.float32"

    def __init__(self, steps: tuple[str, ...] = ()) -> None:
        self.steps = steps

    def detach(self) -> Tensor:
        return Tensor((*self.steps, "detach"))

    def cpu(self) -> Tensor:
        return Tensor((*self.steps, "cpu"))

    def numpy(self) -> NDArray[np.float32]:
        assert self.steps == ("detach", "cpu")
        return np.ones(3, np.float32)


def test_tensors_of_torch_are_taken_off_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(Tensor=Tensor, bfloat16="torch.bfloat16")
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    assert Push(forces=Tensor()).forces.tolist() == [1, 1, 1]  # type: ignore[arg-type]


def test_big_endian_arrays_become_native() -> None:
    read = field("int32").validate_python(np.array([1, 2], ">i4"))
    assert read.dtype.isnative
    assert read.tolist() == [1, 2]


@pytest.mark.parametrize("annotation", [NDArray[Any], np.ndarray, NDArray[np.str_], list[int]])
def test_a_field_without_a_type_of_elements_is_refused_when_it_is_declared(
    annotation: Any,
) -> None:
    with pytest.raises(ConfigurationError, match="Array\\(dtype=\\)"):
        TypeAdapter(Annotated[annotation, Array()])


def test_the_schema_tells_type_and_shape() -> None:
    properties = Frame.model_json_schema()["properties"]
    assert properties["pixels"]["x-openenv-array"] == {"dtype": "uint8", "shape": [2, None, 3]}
    assert properties["pixels"]["items"]["items"]["items"] == {
        "type": "integer", "minimum": 0, "maximum": 255,
    }  # fmt: skip
    assert properties["points"]["properties"]["dtype"] == {"const": "float32"}


def test_a_field_may_be_absent() -> None:
    class Maybe(BaseModel):
        array: Annotated[NDArray[np.uint8], Array((2,))] | None = None

    assert Maybe().model_dump() == {"array": None}
    assert Maybe.model_validate_json('{"array":[1,2]}').array is not None


async def test_arrays_arrive_as_arrays_over_every_door_of_ours(tmp_path: Path) -> None:
    async with serve_environments(CAMERA, path=tmp_path) as urls:
        for url in urls.values():
            async with GenericEnvClient(url) as client:
                await client.reset()
                for forces in (np.ones(3, np.float32), [1, 1, 1]):
                    seen = (await client.step({"forces": forces})).observation
                    assert seen["pixels"].shape == (2, 4, 3)
                    assert seen["points"].dtype == np.float32
                    assert seen["points"].tolist() == [2, 2, 2]
            async with CameraClient(url) as typed:
                await typed.reset()
                action = Push(forces=np.ones(3, np.float32))
                assert (await typed.step(action)).observation.pixels.max() == 255


async def test_an_array_that_does_not_fit_is_an_invalid_action(tmp_path: Path) -> None:
    async with serve_environments(CAMERA, path=tmp_path) as urls:
        for url in urls.values():
            async with GenericEnvClient(url) as client:
                with pytest.raises(InvalidActionError) as caught:
                    await client.step({"forces": np.ones(3)})
                assert [violation.path for violation in caught.value.violations] == ["/forces"]
                await client.step({"forces": np.ones(3, np.float32)})


async def test_json_has_lists_or_base64_as_the_field_says(tmp_path: Path) -> None:
    async with (
        serve_environments(CAMERA, path=tmp_path) as urls,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{urls['http']}/ws") as socket,
    ):
        await socket.send_json({"type": "reset", "data": {}})
        seen = (await socket.receive_json())["data"]["observation"]
        assert seen["pixels"] == [[[0, 0, 0]], [[0, 0, 0]]]
        assert seen["points"] == {"dtype": "float32", "shape": [1], "data": "AAAAPw=="}
