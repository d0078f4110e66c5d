from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy
import pytest

from openenv_grpc.client import EnvClient, GenericAction, GenericEnvClient
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentNotFoundError,
    InvalidActionError,
    InvalidRequestError,
    MessageTooLargeError,
    NotSupportedError,
    OpenEnvError,
    OutcomeTooLargeError,
    ProtocolViolationError,
    SessionCapacityError,
    TooManyOperationsError,
    UnavailableError,
)
from openenv_grpc.types import StepResult
from tests.client.conftest import serve_environments
from tests.client.environments import (
    BrokenEnvironment,
    Gate,
    TurnAction,
    TurnObservation,
    TurnState,
)


class TurnClient(EnvClient[TurnAction, TurnObservation, TurnState]):
    """Derived by naming the classes."""


class HookedClient(EnvClient[Any, Any, Any]):
    """Derived by hooks, as clients of the reference are."""

    def _step_payload(self, action: str) -> dict[str, Any]:
        return {"text": action.upper()}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[str]:
        return StepResult(
            observation=payload["observation"]["text"],
            reward=payload.get("reward"),
            done=payload.get("done", False),
        )

    def _parse_state(self, payload: dict[str, Any]) -> int:
        steps: int = payload["step_count"]
        return steps


async def test_an_episode_runs_over_every_door(tmp_path: Path) -> None:
    async with serve_environments(path=tmp_path) as urls:
        for url in urls.values():
            async with GenericEnvClient(base_url=url) as client:
                start = await client.reset(seed=3, episode_id="e1", level=2)
                assert start.observation["text"] == "seed=3 level=2"
                assert start.reward is None
                assert start.info == {"episode_id": "e1"}
                result = await client.step({"text": "hi"})
                assert (result.observation["turn"], result.reward, result.done) == (1, 0.5, False)
                assert (await client.state())["last_text"] == "hi"


async def test_actions_may_be_mappings_or_models(url: str) -> None:
    async with GenericEnvClient(url) as client:
        for action in ({"text": "a"}, GenericAction(text="a"), TurnAction(text="a")):
            assert (await client.step(action)).observation["text"] == "a"
        with pytest.raises(InvalidRequestError, match="a mapping, a model"):
            await client.step(3)


async def test_a_typed_client_gives_the_environments_own_classes(url: str) -> None:
    async with TurnClient(url) as client:
        result = await client.step(TurnAction(op="cut", text="end"))
        assert isinstance(result.observation, TurnObservation)
        assert result.observation.reward == 0.5
        assert result.observation.done
        assert result.observation.truncated
        state = await client.state()
        assert isinstance(state, TurnState)
        assert state.last_text == "end"


async def test_hooks_of_the_references_kind_are_enough(url: str) -> None:
    async with HookedClient(url) as client:
        result = await client.step("a")
        assert (result.observation, result.reward) == ("A", 0.5)
        assert await client.state() == 1


@pytest.mark.parametrize(
    ("op", "terminated", "truncated"), [("finish", True, False), ("cut", False, True)]
)
async def test_results_tell_how_an_episode_ended(
    url: str, op: str, terminated: bool, truncated: bool
) -> None:
    async with TurnClient(url) as client:
        result = await client.step(TurnAction.model_validate({"op": op}))
        assert result.done
        assert (result.terminated, result.truncated) == (terminated, truncated)


async def test_an_observation_of_another_class_is_refused(url: str) -> None:
    class StrictObservation(TurnObservation):
        missing: int

    class StrictClient(EnvClient[TurnAction, StrictObservation, TurnState]):
        pass

    async with StrictClient(url) as client:
        with pytest.raises(ProtocolViolationError, match="missing") as caught:
            await client.step(TurnAction())
        assert caught.value.effect is Effect.DONE


async def test_a_client_without_classes_and_hooks_says_what_to_write(url: str) -> None:
    class EmptyClient(EnvClient[Any, Any, Any]):
        observation_type = None
        state_type = None

    async with EmptyClient(url) as client:
        with pytest.raises(NotSupportedError, match="EnvClient"):
            await client.reset()
        with pytest.raises(NotSupportedError, match="_parse_state"):
            await client.state()


async def test_arrays_travel_both_ways(url: str) -> None:
    frame = numpy.arange(12, dtype=numpy.uint8).reshape(3, 4)
    async with GenericEnvClient(url) as client:
        result = await client.step({"op": "look", "frame": frame})
        seen = result.observation["frame"]
        assert seen.dtype == numpy.uint8
        numpy.testing.assert_array_equal(seen, frame * 2)
        numpy.testing.assert_array_equal(result.observation["frames"][0], frame)
        assert result.observation["frames"][1] == {"sum": 66}


async def test_a_typed_client_takes_arrays_too(url: str) -> None:
    frame = numpy.ones((2, 2), dtype=numpy.float32)
    async with TurnClient(url) as client:
        result = await client.step(TurnAction(op="look", frame=frame))
        numpy.testing.assert_array_equal(result.observation.frame, frame * 2)


async def test_what_cannot_be_sent_is_refused_before_anything_happens(url: str) -> None:
    async with GenericEnvClient(url) as client:
        with pytest.raises(InvalidRequestError, match="cannot be sent") as caught:
            await client.step({"text": object()})
        assert caught.value.effect is Effect.NONE
        with pytest.raises(InvalidRequestError, match="seed"):
            await client.reset(seed="one")
        with pytest.raises(InvalidRequestError, match="seed"):
            await client.reset(seed=2**63)
        with pytest.raises(InvalidRequestError, match="episode_id"):
            await client.reset(episode_id="x" * 256)
        for timeout_s in (0, math.nan, math.inf, 10**20):
            with pytest.raises(InvalidRequestError, match="timeout_s"):
                await client.step({}, timeout_s=timeout_s)
        assert (await client.step({"text": "a"})).observation["turn"] == 1


async def test_keywords_reach_the_environments_step(url: str) -> None:
    async with GenericEnvClient(url) as client:
        result = await client.step({"op": "kwargs"}, effort=3)
        assert result.metadata == {"effort": 3}
        result = await client.step({"op": "limit"}, timeout_s=7.5)
        assert result.observation["limit_s"] == 7.5


async def test_errors_tell_whether_anything_happened(url: str) -> None:
    async with GenericEnvClient(url) as client:
        with pytest.raises(InvalidActionError) as refused:
            await client.step({"txt": 1})
        assert refused.value.effect is Effect.NONE
        assert refused.value.violations[0].path == "/txt"
        with pytest.raises(EnvironmentFailedError, match="asked to fail: x") as failed:
            await client.step({"op": "fail", "text": "x"})
        assert failed.value.effect is Effect.UNKNOWN
        assert not failed.value.session_lost
        assert (await client.step({"text": "on"})).observation["turn"] == 2


async def test_a_step_given_up_does_not_answer_the_next_one(url: str, gate: Gate) -> None:
    async with GenericEnvClient(url, message_timeout_s=0.2) as client:
        with pytest.raises(DeadlineExceededError) as caught:
            await client.step({"op": "wait", "text": gate.name})
        assert caught.value.effect is Effect.UNKNOWN
        gate.opened.set()
        result = await client.step({"text": "next"})
        assert (result.observation["text"], result.observation["turn"]) == ("next", 2)


async def test_the_servers_deadline_ends_a_step_and_not_the_session(url: str, gate: Gate) -> None:
    async with GenericEnvClient(url) as client:
        with pytest.raises(DeadlineExceededError) as caught:
            await client.step({"op": "wait", "text": gate.name}, timeout_s=0.1)
        assert caught.value.effect is Effect.UNKNOWN
        gate.opened.set()
        assert (await client.step({"text": "next"})).observation["turn"] == 2


async def test_a_cancelled_step_leaves_the_session_usable(url: str, gate: Gate) -> None:
    async with GenericEnvClient(url) as client:
        step = asyncio.create_task(client.step({"op": "wait", "text": gate.name}))
        await asyncio.to_thread(gate.entered.wait, 5)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        gate.opened.set()
        assert (await client.step({"text": "next"})).observation["text"] == "next"


async def test_an_episode_can_be_judged_without_a_step(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset()
        assert not (await client.evaluate()).done
        await client.step({"op": "cut"})
        verdict = await client.evaluate()
        assert (verdict.done, verdict.terminated, verdict.truncated) == (True, False, True)


async def test_more_operations_than_the_server_takes_are_refused_before_sending(url: str) -> None:
    async with GenericEnvClient(url) as client:
        results = await asyncio.gather(
            *(client.step({}) for _ in range(20)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, TooManyOperationsError)]
        assert len(refused) == 4
        assert (await client.step({})).observation["turn"] == 17


async def test_giving_up_an_opening_does_not_wait_for_it(url: str, gate: Gate) -> None:
    async with GenericEnvClient(url) as other:
        client = GenericEnvClient(url, environment="GatedEnvironment")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.connect()
        gate.opened.set()
        await client.close()
        await other.step({})


async def test_steps_of_one_client_may_be_sent_ahead(url: str) -> None:
    async with GenericEnvClient(url) as client:
        results = await asyncio.gather(*(client.step({"text": str(n)}) for n in range(8)))
        assert [result.observation["turn"] for result in results] == list(range(1, 9))


async def test_a_new_session_is_closed_with_its_parent(url: str) -> None:
    async with GenericEnvClient(url) as parent:
        child = await parent.new_session()
        await parent.step({"text": "parent"})
        assert (await child.state())["step_count"] == 0
        grandchild = await child.new_session()
        assert (await grandchild.step({})).observation["turn"] == 1


async def test_capacity_shows_as_a_typed_error(tmp_path: Path) -> None:
    async with serve_environments(path=tmp_path, max_sessions=1) as urls:
        for door in ("grpc", "ws"):
            async with GenericEnvClient(urls[door]):
                client = GenericEnvClient(urls[door], queue_timeout_s=0)
                with pytest.raises(SessionCapacityError, match="CAPACITY_REACHED"):
                    await client.connect()
                await client.close()
            await client.connect()
            await client.close()


async def test_an_unknown_environment_is_named(url: str) -> None:
    client = GenericEnvClient(url, environment="nosuch")
    with pytest.raises(EnvironmentNotFoundError, match="nosuch"):
        await client.connect()
    await client.close()


async def test_an_environment_that_cannot_be_built_fails_at_connect(tmp_path: Path) -> None:
    broken = EnvironmentDefinition(
        factory=BrokenEnvironment, action_type=TurnAction, observation_type=TurnObservation
    )
    async with serve_environments(broken, path=tmp_path) as urls:
        client = GenericEnvClient(urls["grpc"])
        with pytest.raises(EnvironmentFactoryError):
            await client.connect()
        await client.close()


async def test_a_message_beyond_the_servers_limit_is_not_sent(url: str) -> None:
    frame = numpy.zeros(101 * 2**20, dtype=numpy.uint8)
    async with GenericEnvClient(url) as client:
        with pytest.raises(MessageTooLargeError) as caught:
            await client.step({"op": "look", "frame": frame})
        assert caught.value.effect is Effect.NONE
        assert (await client.step({})).observation["turn"] == 1


async def test_an_outcome_beyond_the_clients_limit_is_an_error_of_its_step(url: str) -> None:
    async with GenericEnvClient(url, max_message_size_mb=0.1) as client:
        with pytest.raises(OutcomeTooLargeError) as caught:
            await client.step({"text": "x" * 200_000})
        assert caught.value.effect is Effect.DONE
        assert (await client.step({"text": "y"})).observation["turn"] == 2


async def test_a_stopped_server_loses_the_session_and_reset_says_so(tmp_path: Path) -> None:
    async with serve_environments(path=tmp_path) as urls:
        clients = [GenericEnvClient(urls[door]) for door in ("grpc", "ws")]
        for client in clients:
            await client.reset()
    for client in clients:
        with pytest.raises(OpenEnvError, match=r"call reset\(\)") as caught:
            await client.step({})
        assert caught.value.session_lost
        with pytest.raises(UnavailableError):
            await client.reset()
        await client.close()


async def test_a_client_can_be_used_again_after_close(url: str) -> None:
    client = GenericEnvClient(url)
    assert (await client.step({})).observation["turn"] == 1
    await client.close()
    assert (await client.step({})).observation["turn"] == 1
    await client.close()


def test_a_client_of_another_loop_says_so_at_once(tmp_path: Path) -> None:
    async def outer() -> None:
        async with (
            serve_environments(path=tmp_path) as urls,
            GenericEnvClient(urls["ws"]) as client,
        ):

            def inner() -> None:
                async def step() -> None:
                    with pytest.raises(InvalidRequestError, match="another event loop"):
                        await client.step({})
                    with pytest.raises(InvalidRequestError, match="another event loop"):
                        await client.close()

                asyncio.run(step())

            await asyncio.to_thread(inner)
            assert (await client.step({})).observation["turn"] == 1

    asyncio.run(outer())


async def test_a_url_of_the_wrong_kind_is_unavailable(tmp_path: Path) -> None:
    async with serve_environments(path=tmp_path) as urls:
        client = GenericEnvClient(urls["grpc"].replace("grpc://", "ws://"))
        with pytest.raises(UnavailableError, match="not HTTP"):
            await client.connect()
        client = GenericEnvClient(urls["grpc"].replace("grpc://", "grpcs://"))
        with pytest.raises(UnavailableError):
            await client.connect()
        client = GenericEnvClient(f"{urls['ws']}/nosuch")
        with pytest.raises(EnvironmentNotFoundError, match="it has: TurnEnvironment"):
            await client.connect()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"base_url": "ftp://x"},
        {"base_url": "grpc://x", "mode": "other"},
        {"base_url": "grpc://x", "message_timeout_s": 0},
        {"base_url": "grpc://x", "websocket_ping_interval_s": -1.0},
        {"base_url": "grpc://x", "headers": {"a b": "x"}},
        {"base_url": "grpc://x", "headers": {"authorization": "x\ny"}},
    ],
)
def test_useless_arguments_are_refused_at_construction(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        GenericEnvClient(**arguments)


def test_a_plain_with_says_what_to_write_instead() -> None:
    client = GenericEnvClient("grpc://127.0.0.1:1")

    with pytest.raises(TypeError, match=r"async with GenericEnvClient.*\.sync\(\)"), client:
        pass
