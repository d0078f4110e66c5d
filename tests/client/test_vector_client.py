"""Many sessions as one: batches, the ends of episodes, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from openenv_grpc import Action, Array, Environment, Observation, State
from openenv_grpc.client import VectorEnvClient
from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.errors import (
    EnvironmentFailedError,
    InvalidActionError,
    InvalidRequestError,
    OpenEnvError,
    SessionCapacityError,
    SessionExpiredError,
    UnavailableError,
)
from openenv_grpc.server import GrpcServer
from tests.client.conftest import TURNS, serve_environments
from tests.client.environments import Gate
from tests.client.peers import serve_socket
from tests.client.test_json_session import echo, talking
from tests.client.test_sync_client import serving_elsewhere

LIMIT_S = 20


class Push(Action):
    forces: Annotated[NDArray[np.float32], Array((2,))]


class Seen(Observation):
    frame: Annotated[NDArray[np.uint8], Array((None, 3))]
    total: float
    seed: int | None = None


class Field(Environment[Push, Seen, State]):
    """Sums up forces; over at 3, and as many rows in the frame as its seed says, if that is odd."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, rows: int = 2) -> Seen:
        self.total, self.rows, self.seed = 0.0, rows, seed
        return self.seen()

    def step(self, action: Push, timeout_s: float | None = None) -> Seen:
        self.total += float(action.forces.sum())
        return self.seen()

    def seen(self) -> Seen:
        frame = np.full((self.rows, 3), int(self.total), np.uint8)
        over = self.total >= 3
        return Seen(frame=frame, total=self.total, seed=self.seed, reward=self.total, done=over)


class Sums(Observation):
    sums: Annotated[NDArray[np.float32], Array((2,))]
    unit: str = "N"


class Scale(Environment[Push, Sums, State]):
    """Shows nothing but the sums of forces; over at 3, which the metadata tell."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Sums:
        self.sums = np.zeros(2, np.float32)
        return Sums(sums=self.sums)

    def step(self, action: Push, timeout_s: float | None = None) -> Sums:
        self.sums = self.sums + action.forces
        over = bool(self.sums[0] >= 3)
        metadata = {"weight": float(self.sums[0])} if over else {}
        return Sums(sums=self.sums, reward=1.0, done=over, metadata=metadata)


SCALE = EnvironmentDefinition(factory=Scale, action_type=Push, observation_type=Sums)


@pytest.fixture(params=["grpc", "ws"])
async def scale_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with serve_environments(SCALE, path=tmp_path) as urls:
        yield urls[request.param]


FIELD = EnvironmentDefinition(factory=Field, action_type=Push, observation_type=Seen)


@pytest.fixture(params=["grpc", "ws"])
async def field_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with serve_environments(FIELD, path=tmp_path) as urls:
        yield urls[request.param]


def forces(*totals: float) -> dict[str, Any]:
    return {"forces": np.array([[total, 0] for total in totals], np.float32)}


async def test_results_are_batches_with_one_row_an_environment(field_url: str) -> None:
    async with VectorEnvClient(field_url, 3) as envs:
        observations, infos = await envs.reset(seed=5)
        assert observations["frame"].shape == (3, 2, 3)
        assert observations["seed"].tolist() == [5, 6, 7]
        assert infos["_episode_id"].all()
        assert len(set(infos["episode_id"])) == 3

        step = await envs.step(forces(0, 1, 2))
        assert step.observations["frame"].dtype == np.uint8
        assert step.observations["frame"][:, 1, 2].tolist() == [0, 1, 2]
        assert step.observations["total"].tolist() == [0, 1, 2]
        assert step.rewards.tolist() == [0, 1, 2]
        assert (step.rewards.dtype, step.terminations.dtype) == (np.float64, np.bool_)
        assert not step.terminations.any()
        assert not step.truncations.any()
        assert step.infos["env_id"].tolist() == [0, 1, 2]


def test_a_plain_with_is_refused_and_told_what_to_say() -> None:
    told = r"async with VectorEnvClient.*sync\(\) as client"
    with pytest.raises(TypeError, match=told), VectorEnvClient("grpc://127.0.0.1:1", 2):
        pass


async def test_actions_may_be_one_for_each_environment(url: str) -> None:
    async with VectorEnvClient(url, 2) as envs:
        await envs.reset()
        step = await envs.step([{"text": "a"}, {"text": "b"}])
        assert step.observations["text"] == ("a", "b")
        step = await envs.step({"text": ("c", "d")})
        assert step.observations["text"] == ("c", "d")
        assert step.observations["turn"].tolist() == [2, 2]


async def test_rows_that_differ_in_shape_are_a_tuple(field_url: str) -> None:
    async with VectorEnvClient(field_url, 2) as envs:
        await envs.reset()
        mask = np.array([False, True])
        observations, _ = await envs.reset(options={"reset_mask": mask, "rows": 4})
        assert [frame.shape for frame in observations["frame"]] == [(2, 3), (4, 3)]
        assert observations["total"].tolist() == [0, 0]


@pytest.mark.parametrize("seed", [9, [9, 10], None])
async def test_seeds_count_on_from_the_first_or_are_listed(field_url: str, seed: Any) -> None:
    async with VectorEnvClient(field_url, 2) as envs:
        observations, _ = await envs.reset(seed=seed)
        seeds = observations["seed"]
        assert list(seeds) == ([None, None] if seed is None else [9, 10])


@pytest.mark.parametrize("mode", ["next_step", "NextStep"])
async def test_the_step_after_an_end_resets_and_ignores_its_action(
    field_url: str, mode: str
) -> None:
    async with VectorEnvClient(field_url, 2, autoreset=mode) as envs:
        await envs.reset()
        step = await envs.step(forces(3, 1))
        assert step.terminations.tolist() == [True, False]
        assert step.observations["total"].tolist() == [3, 1]
        step = await envs.step(forces(1, 1))
        assert step.observations["total"].tolist() == [0, 2]
        assert step.rewards.tolist() == [0, 2]
        assert not step.terminations.any()
        assert step.infos["_episode_id"].tolist() == [True, False]
        assert (await envs.step(forces(1, 0))).observations["total"].tolist() == [1, 2]


async def test_an_end_may_be_reset_at_once_with_the_last_observation_beside(
    field_url: str,
) -> None:
    async with VectorEnvClient(field_url, 2, autoreset="same_step") as envs:
        await envs.reset()
        step = await envs.step(forces(1, 4))
        assert step.observations["total"].tolist() == [1, 0]
        assert step.rewards.tolist() == [1, 4]
        assert step.terminations.tolist() == [False, True]
        assert step.infos["_final_obs"].tolist() == [False, True]
        assert step.infos["final_obs"][0] is None
        assert step.infos["final_obs"][1]["total"] == 4
        assert "final_obs" not in (await envs.step(forces(0, 0))).infos


async def test_without_autoreset_the_caller_resets_what_is_over(field_url: str) -> None:
    async with VectorEnvClient(field_url, 2, autoreset="disabled") as envs:
        await envs.reset()
        step = await envs.step(forces(3, 1))
        with pytest.raises(InvalidRequestError, match="the episodes of \\[0\\] are over"):
            await envs.step(forces(1, 1))
        observations, _ = await envs.reset(options={"reset_mask": step.terminations})
        assert observations["total"].tolist() == [0, 1]
        assert (await envs.step(forces(1, 1))).observations["total"].tolist() == [1, 2]


@pytest.mark.parametrize("copy", [True, False])
async def test_observations_that_are_alike_are_batches_as_others_are(
    scale_url: str, copy: bool
) -> None:
    async with VectorEnvClient(scale_url, 3, copy=copy) as envs:
        observations, _ = await envs.reset()
        assert observations["sums"].tolist() == [[0, 0]] * 3
        for turn in range(1, 6):
            step = await envs.step(forces(0.1, 0.2, 0.3))
            sums = step.observations["sums"]
            assert (sums.dtype, sums.shape) == (np.float32, (3, 2))
            assert np.allclose(sums[:, 0], np.array([0.1, 0.2, 0.3]) * turn)
            assert sums.flags.writeable
            assert step.observations["unit"] == ("N", "N", "N")
            assert list(step.observations) == ["sums", "unit"]
            assert "metadata" not in step.infos
        observations, _ = await envs.reset(options={"reset_mask": [False, True, False]})
        assert np.allclose(observations["sums"], [[0.5, 0], [0, 0], [1.5, 0]])


async def test_what_is_alike_may_stand_beside_what_is_not(scale_url: str) -> None:
    async with VectorEnvClient(scale_url, 2, autoreset="same_step") as envs:
        await envs.reset()
        for _ in range(5):
            await envs.step(forces(0, 0.5))
        step = await envs.step(forces(1, 0.5))
        assert step.observations["sums"].tolist() == [[1, 0], [0, 0]]
        assert step.terminations.tolist() == [False, True]
        assert step.infos["final_obs"][1].keys() == {"sums", "unit"}
        assert step.infos["final_obs"][1]["sums"].tolist() == [3, 0]
        assert step.infos["final_info"]["metadata"]["weight"].tolist() == [0, 3]
        step = await envs.step(forces(0.5, 0.5))
        assert step.observations["sums"].tolist() == [[1.5, 0], [0.5, 0]]


async def test_a_missing_verdict_is_nan(url: str) -> None:
    async with VectorEnvClient(url, 1, environment="ToolEnvironment") as envs:
        _, infos = await envs.reset()
        assert infos["metadata"]["greeting"].tolist() == ["hello"]
        step = await envs.step([{"type": "list_tools"}])
        assert math.isnan(step.rewards[0])


async def test_those_who_are_ready_come_first(url: str, gate: Gate) -> None:
    async with asyncio.timeout(LIMIT_S), VectorEnvClient(url, 3, batch_size=1) as envs:
        envs.async_reset()
        first = [await envs.recv() for _ in range(3)]
        assert sorted(int(step.infos["env_id"][0]) for step in first) == [0, 1, 2]
        assert [step.rewards.tolist() for step in first] == [[0.0]] * 3

        envs.send([{"op": "wait", "text": gate.name}], [1])
        for turn in (1, 2, 3):
            envs.send([{"text": "on"}], [2])
            step = await envs.recv()
            assert step.infos["env_id"].tolist() == [2]
            assert step.observations["turn"].tolist() == [turn]
        with pytest.raises(InvalidRequestError, match="still due"):
            envs.send([{"text": "twice"}], [1])
        gate.opened.set()
        assert (await envs.recv()).infos["env_id"].tolist() == [1]
        with pytest.raises(InvalidRequestError, match="no answers are due"):
            await envs.recv()


async def test_a_cancelled_receive_loses_nothing(url: str, gate: Gate) -> None:
    async with asyncio.timeout(LIMIT_S), VectorEnvClient(url, 2) as envs:
        await envs.reset()
        waiting = asyncio.ensure_future(
            envs.step([{"op": "wait", "text": gate.name}, {"text": "b"}])
        )
        assert await asyncio.to_thread(gate.entered.wait, LIMIT_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        with pytest.raises(InvalidRequestError, match="still due"):
            await envs.step([{"text": "c"}] * 2)
        gate.opened.set()
        step = await envs.recv()
        assert sorted(step.infos["env_id"].tolist()) == [0, 1]
        assert set(step.observations["text"]) == {gate.name, "b"}


async def test_a_lost_session_is_told_in_its_row_and_opened_anew(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        SessionManager([TURNS]) as host,
        GrpcServer(host, addresses=("127.0.0.1:0",), stop_grace_s=0.1) as server,
        VectorEnvClient(f"grpc://127.0.0.1:{server.ports[0]}", 3) as envs,
    ):
        await envs.reset()
        first = await envs.step([{"text": "a"}] * 3)
        lost = host.sessions()[1].session_id
        host.end_session(lost, SessionExpiredError("it idled", session_lost=True))

        step = await envs.step([{"text": "b"}] * 3)
        index = int(np.flatnonzero(step.truncations)[0])
        others = [row for row in range(3) if row != index]
        assert step.truncations.sum() == 1
        assert step.infos["_error"].tolist() == step.truncations.tolist()
        error = step.infos["error"][index]
        assert isinstance(error, OpenEnvError)
        assert error.session_lost
        assert error.metadata["env"] == str(index)
        assert step.observations["text"][index] == first.observations["text"][index]
        assert step.observations["turn"][others].tolist() == [2, 2]

        step = await envs.step([{"text": "c"}] * 3)
        assert step.observations["text"][index] == "seed=None level=0"
        assert step.observations["turn"][others].tolist() == [3, 3]
        assert "error" not in step.infos
        assert len(host.sessions()) == 3


async def test_an_error_is_raised_with_its_environment_once_all_have_answered(url: str) -> None:
    async with VectorEnvClient(url, 3) as envs:
        await envs.reset()
        with pytest.raises(EnvironmentFailedError) as failed:
            await envs.step([{"text": "a"}, {"op": "fail"}, {"text": "c"}])
        assert failed.value.metadata["env"] == "1"
        with pytest.raises(InvalidActionError):
            await envs.step([{"text": "a"}, {"text": 5}, {"text": "c"}])
        step = await envs.step([{"text": "d"}] * 3)
        assert step.observations["turn"].tolist() == [3, 2, 3]


async def test_errors_may_be_masked(url: str) -> None:
    async with VectorEnvClient(url, 2, errors="mask") as envs:
        await envs.reset()
        step = await envs.step([{"op": "fail"}, {"text": "b"}])
        assert step.infos["_error"].tolist() == [True, False]
        assert isinstance(step.infos["error"][0], EnvironmentFailedError)
        assert not step.truncations.any()
        assert math.isnan(step.rewards[0])
        assert step.observations["text"][1] == "b"


async def test_an_action_that_cannot_be_sent_is_an_error_of_its_environment_alone(
    url: str,
) -> None:
    async with VectorEnvClient(url, 2, errors="mask") as envs:
        await envs.reset()
        step = await envs.step({"text": ["fine", "\ud800"]})
        assert step.infos["_error"].tolist() == [False, True]
        error = step.infos["error"][1]
        assert isinstance(error, InvalidRequestError)
        assert "cannot be sent" in error.message


async def test_late_answers_are_errors_of_their_environments(url: str, gate: Gate) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        VectorEnvClient(url, 2, errors="mask", message_timeout_s=0.5) as envs,
    ):
        await envs.reset()
        step = await envs.step([{"op": "wait", "text": gate.name}, {"text": "b"}])
        assert step.infos["_error"].tolist() == [True, False]
        assert step.infos["error"][0].reason.name == "DEADLINE_EXCEEDED"
        gate.opened.set()


async def test_the_same_memory_may_be_used_in_every_batch(field_url: str) -> None:
    async with VectorEnvClient(field_url, 2, copy=False) as envs:
        await envs.reset()
        first = (await envs.step(forces(1, 1))).observations["frame"]
        assert (await envs.step(forces(1, 1))).observations["frame"] is first
    async with VectorEnvClient(field_url, 2) as envs:
        await envs.reset()
        first = (await envs.step(forces(1, 1))).observations["frame"]
        assert (await envs.step(forces(1, 1))).observations["frame"] is not first


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ([{"text": "a"}], "1 entries for 2 environments"),
        ({"text": ["a"]}, "text has 1 entries for 2"),
        ({"text": "ab"}, "each field of the actions has a batch"),
        ({"frame": np.array(1.0)}, "each field of the actions has a batch"),
        (np.zeros(2), "a mapping that gives each field a batch"),
        ([1, 2], "an action is a mapping"),
    ],
)
async def test_actions_that_do_not_fit_the_environments_are_refused(
    url: str, actions: Any, told: str
) -> None:
    async with VectorEnvClient(url, 2) as envs:
        await envs.reset()
        with pytest.raises(InvalidRequestError, match=told):
            await envs.step(actions)
        assert (await envs.step([{}, {}])).observations["turn"].tolist() == [1, 1]


async def test_what_is_of_no_use_is_refused(url: str) -> None:
    for arguments in ({"num_envs": 0}, {"num_envs": 2, "batch_size": 3}, {"autoreset": "never"}):
        with pytest.raises(InvalidRequestError):
            VectorEnvClient(url, **arguments)  # type: ignore[arg-type]
    envs = VectorEnvClient(url, 2)
    with pytest.raises(InvalidRequestError, match="reset\\(\\) or connect\\(\\) first"):
        await envs.step([{}, {}])
    async with envs:
        with pytest.raises(InvalidRequestError, match="1 seeds for 2 environments"):
            await envs.reset(seed=[1])
        with pytest.raises(InvalidRequestError, match="environment 1 was never reset"):
            await envs.reset(options={"reset_mask": [True, False]})
        await envs.reset()
        with pytest.raises(InvalidRequestError, match="from 0 to 1, each once"):
            envs.send([{}, {}], [0, 0])


async def test_all_sessions_are_opened_or_none(tmp_path: Path) -> None:
    small = EnvironmentDefinition(
        factory=Field, action_type=Push, observation_type=Seen, max_sessions=2
    )
    async with serve_environments(small, path=tmp_path) as urls:
        with pytest.raises(InvalidRequestError, match="a group of 3 opens never fits"):
            await VectorEnvClient(urls["grpc"], 3).connect()
        async with VectorEnvClient(urls["grpc"], 2) as envs:
            await envs.reset()
            with pytest.raises(SessionCapacityError):
                await VectorEnvClient(urls["grpc"], 2, queue_timeout_s=0).connect()
            waiting = asyncio.ensure_future(VectorEnvClient(urls["grpc"], 2).connect())
        async with asyncio.timeout(LIMIT_S):
            await (await waiting).close()
    with pytest.raises(UnavailableError):
        await VectorEnvClient(urls["grpc"], 2, connect_timeout_s=2).connect()


async def test_it_speaks_json_to_servers_that_know_no_more() -> None:
    async with (
        serve_socket(talking(echo), binary=False) as url,
        VectorEnvClient(url, 2) as envs,
    ):
        await envs.reset()
        step = await envs.step({"text": ["a", "b"]})
        assert step.observations["text"] == ("a", "b")


def test_it_works_without_a_loop(tmp_path: Path) -> None:
    with (
        serving_elsewhere(tmp_path) as urls,
        VectorEnvClient(urls["grpc"], 2, batch_size=1).sync() as envs,
    ):
        envs.reset()
        assert envs.num_envs == 2
        assert envs.step([{"text": "a"}, {"text": "b"}]).observations["text"] == ("a", "b")
        envs.async_reset()
        received = {int(envs.recv().infos["env_id"][0]) for _ in range(2)}
        envs.send([{"text": "c"}], [1])
        assert received == {0, 1}
        assert envs.recv().observations["text"] == ("c",)
