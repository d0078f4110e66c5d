"""Environments of a server by Gymnasium's calls: they pass its checker, and are like local ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence

from openenv_grpc import GenericEnvClient
from openenv_grpc.errors import ConfigurationError, InvalidActionError, UnavailableError
from openenv_grpc.gymnasium import GymEnv, gymnasium_environment
from tests.gymnasium.conftest import served
from tests.gymnasium.environments import SHIP

# The checker warns of infinite bounds, which CartPole has.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_the_checker_of_gymnasium_passes_one_of_its_own(
    cart_pole: dict[str, str], door: str
) -> None:
    with GymEnv(cart_pole[door]) as env:
        check_env(env, skip_render_check=True)


def test_the_checker_of_gymnasium_passes_one_of_ours() -> None:
    with served(SHIP) as urls, GymEnv(urls["grpc"]) as env:
        check_env(env, skip_render_check=True)
        assert isinstance(env.action_space, spaces.Dict)
        observation, info = env.reset(seed=1)
        assert observation["pixels"].flags.writeable
        assert info == {"hint": None}
        action = {"turn": 1, "thrust": np.ones(2, np.float32)}
        observation, reward, terminated, truncated, _ = env.step(action)
        assert (observation["heading"], observation["speed"]) == (1, 2.0)
        assert (reward, terminated, truncated) == (0.0, False, False)


def test_a_served_environment_is_the_one_that_gymnasium_makes(cart_pole: dict[str, str]) -> None:
    with GymEnv(cart_pole["grpc"]) as remote, gymnasium.make("CartPole-v1") as local:
        assert remote.observation_space == local.observation_space
        assert remote.action_space == local.action_space
        assert data_equivalence(remote.reset(seed=4), local.reset(seed=4))
        local.action_space.seed(4)
        for _ in range(60):
            action = local.action_space.sample()
            seen = local.step(action)
            assert data_equivalence(remote.step(action), (*seen[:1], float(seen[1]), *seen[2:]))
            if seen[2]:
                break


def test_every_kind_of_space_travels() -> None:
    with (
        served(gymnasium_environment("tests/Mirror-v0")) as urls,
        GymEnv(urls["grpc"]) as env,
    ):
        first, info = env.reset(seed=1, options={"level": 2})
        assert first in env.observation_space
        assert info == {"options": {"level": 2}}
        env.action_space.seed(7)
        for _ in range(5):
            action = env.action_space.sample()
            observation, reward, terminated, truncated, info = env.step(action)
            assert observation in env.observation_space
            assert data_equivalence(observation, action)
            assert (reward, terminated, truncated) == (1.5, False, True)
            assert info["array"].tolist() == [0, 1, 2]


def test_a_served_environment_speaks_json_too(cart_pole: dict[str, str]) -> None:
    with GenericEnvClient(cart_pole["http"]).sync() as client:
        assert client.reset(seed=1).observation["observation"].shape == (4,)
        assert client.step({"action": 1}).reward == 1.0
        with pytest.raises(InvalidActionError):
            client.step({"action": 2})


def test_one_field_may_be_the_whole_observation() -> None:
    with served(SHIP) as urls:
        with GymEnv(urls["grpc"], observation_field="pixels") as env:
            assert env.observation_space == spaces.Box(0, 255, (4, 4, 3), np.uint8)
            observation, info = env.reset(seed=1)
            assert observation in env.observation_space
            assert info["heading"] == 0
        with pytest.raises(ConfigurationError, match="has no field 'hint' that has a space"):
            GymEnv(urls["grpc"], observation_field="hint")


@pytest.mark.parametrize(
    ("env_id", "told"),
    [("Nothing-v9", "cannot make 'Nothing-v9'"), ("tests/Odd-v0", "Sequence space cannot travel")],
)
def test_what_cannot_be_served_is_told(env_id: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        gymnasium_environment(env_id)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(UnavailableError):
        GymEnv("grpc://127.0.0.1:1", connect_timeout_s=5)
