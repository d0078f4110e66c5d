"""Vector environments of a server, beside Gymnasium's own over the same environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from openenv_grpc.gymnasium import GymVectorEnv, gymnasium_environment
from tests.gymnasium.conftest import served
from tests.gymnasium.environments import SHIP

# Gymnasium warns of numbers in a `Box` without dimensions, as its own vector environment has them.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def local(env_id: str, mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([lambda: gymnasium.make(env_id)] * 3, autoreset_mode=mode)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_it_does_what_gymnasiums_own_does_up_to_the_first_reset(
    cart_pole: dict[str, str], mode: AutoresetMode
) -> None:
    ours = GymVectorEnv(cart_pole["grpc"], 3, autoreset_mode=mode)
    theirs = local("CartPole-v1", mode)
    try:
        assert ours.observation_space == theirs.observation_space
        assert ours.action_space == theirs.action_space
        assert ours.metadata["autoreset_mode"] is mode
        assert data_equivalence(ours.reset(seed=6)[0], theirs.reset(seed=6)[0])
        theirs.action_space.seed(6)
        for _ in range(100):
            actions = theirs.action_space.sample()
            got, expected = ours.step(actions), theirs.step(actions)
            over = np.flatnonzero(expected[2])
            for mine, its in zip(got[1:4], expected[1:4], strict=True):
                assert data_equivalence(mine, its)
            if len(over):
                break
            assert data_equivalence(got[0], expected[0])
        check_the_end(ours, got, expected, over)
    finally:
        ours.close()
        theirs.close()


def check_the_end(
    ours: GymVectorEnv, got: tuple[Any, ...], expected: tuple[Any, ...], over: Any
) -> None:
    assert len(over)
    match ours.autoreset_mode:
        case AutoresetMode.SAME_STEP:
            last, told = got[4]["final_obs"], expected[4]["final_obs"]
            assert data_equivalence(last[over[0]], told[over[0]])
            assert got[0] in ours.observation_space
        case AutoresetMode.NEXT_STEP:
            following = ours.step(ours.action_space.sample())
            assert following[1][over].tolist() == [0.0] * len(over)
            assert not following[2][over].any()
        case AutoresetMode.DISABLED:
            mask = np.zeros(3, np.bool_)
            mask[over] = True
            again, _ = ours.reset(seed=9, options={"reset_mask": mask})
            kept = ~mask
            assert data_equivalence(again[kept], got[0][kept])
            assert not data_equivalence(again[mask], got[0][mask])


def test_every_kind_of_space_is_batched() -> None:
    with served(gymnasium_environment("tests/Mirror-v0")) as urls:
        envs = GymVectorEnv(urls["http"], 3)
        theirs = local("tests/Mirror-v0", AutoresetMode.NEXT_STEP)
        try:
            envs.reset(seed=1)
            theirs.reset(seed=1)
            envs.action_space.seed(1)
            actions = envs.action_space.sample()
            got, expected = envs.step(actions), theirs.step(actions)
            assert data_equivalence(got[0], expected[0])
            assert got[1:4][2].tolist() == [True] * 3
            assert got[4]["_array"].all()
        finally:
            envs.close()
            theirs.close()


def test_environments_of_ours_are_batched_too() -> None:
    with served(SHIP) as urls:
        envs = GymVectorEnv(urls["grpc"], 2)
        try:
            observations, infos = envs.reset(seed=1)
            assert observations in envs.observation_space
            assert infos["_hint"].tolist() == [True, True]
            assert envs.step(envs.action_space.sample())[0] in envs.observation_space
        finally:
            envs.close()
