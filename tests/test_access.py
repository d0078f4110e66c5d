"""Tokens: whose they are, and what they open."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator

import pytest

from openenv_grpc.access import (
    REACHED_BY,
    Access,
    Agent,
    Area,
    Principal,
    Trainer,
    bearer_token,
    environment_tokens,
    tools_session,
)
from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.errors import PermissionDeniedError, SessionClosedError, UnauthenticatedError
from tests.environments import Count, Countdown, Counted

TRAINER = "trainer-token"


@pytest.fixture
async def manager() -> AsyncIterator[SessionManager]:
    definition = EnvironmentDefinition(
        factory=Countdown, action_type=Count, observation_type=Counted, name="countdown"
    )
    async with SessionManager([definition]) as manager:
        yield manager


@pytest.mark.parametrize("token", [None, "", "anything"])
def test_where_no_token_is_asked_for_everybody_is_a_trainer(token: str | None) -> None:
    access = Access()

    assert not access.asks
    assert access.principal(token) == Trainer()
    assert all(access.admit(area, token) == Trainer() for area in Area)


@pytest.mark.parametrize("token", [None, "", "trainer-toke", "trainer-token ", "naïve", "\udc80"])
def test_another_token_is_nobodys(token: str | None) -> None:
    assert Access([TRAINER]).principal(token) is None


def test_every_trainers_token_is_good() -> None:
    access = Access([TRAINER, "second"])

    assert access.principal(TRAINER) == access.principal("second") == Trainer()


def test_every_area_is_in_the_table_and_a_trainer_reaches_all() -> None:
    assert set(REACHED_BY) == set(Area)
    assert all(Trainer in reached for reached in REACHED_BY.values())


@pytest.mark.parametrize(
    ("area", "agent", "anybody"),
    [
        (Area.EPISODES, False, False),
        (Area.TOOLS, True, False),
        (Area.CATALOG, True, False),
        (Area.TASKS, False, False),
        (Area.ADMIN, False, False),
        (Area.HEALTH, True, True),
    ],
)
async def test_the_table(manager: SessionManager, area: Area, agent: bool, anybody: bool) -> None:
    access = Access([TRAINER])
    session = manager.lease("", peer="test")
    token = access.grant(session).token

    assert access.admit(area, TRAINER) == Trainer()
    if agent:
        assert access.admit(area, token) == Agent(session.id)
    else:
        with pytest.raises(PermissionDeniedError):
            access.admit(area, token)
    for none in (None, "wrong"):
        if anybody:
            assert access.admit(area, none) is None
        else:
            with pytest.raises(UnauthenticatedError):
                access.admit(area, none)


@pytest.mark.parametrize("area", Area)
async def test_with_agents_tokens_alone_who_brings_none_is_a_trainer_but_at_the_tools(
    manager: SessionManager, area: Area
) -> None:
    access = Access(agent_tokens=True)
    session = manager.lease("", peer="test")
    token = access.grant(session).token

    assert not access.asks
    assert access.principal(token) == Agent(session.id)
    if area is Area.TOOLS:
        with pytest.raises(UnauthenticatedError, match="--agent-tokens"):
            access.admit(area, None)
    else:
        assert access.admit(area, None) == Trainer()
    if Agent in REACHED_BY[area]:
        assert access.admit(area, token) == Agent(session.id)
    else:
        with pytest.raises(PermissionDeniedError):
            access.admit(area, token)


@pytest.mark.parametrize("token", ["", "wrong", "of a session that has ended"])
async def test_with_agents_tokens_alone_a_token_that_nobody_has_is_no_trainers(
    manager: SessionManager, token: str
) -> None:
    access = Access(agent_tokens=True)
    if "ended" in token:
        session = manager.lease("", peer="test")
        token = access.grant(session).token
        manager.end_session(session.id, SessionClosedError("closed"))

    assert access.principal(token) is None
    for area in set(Area) - {Area.HEALTH}:
        with pytest.raises(UnauthenticatedError):
            access.admit(area, token)


async def test_with_a_trainers_token_the_tools_are_the_trainers_too() -> None:
    access = Access([TRAINER], agent_tokens=True)

    assert access.asks
    assert access.admit(Area.TOOLS, TRAINER) == Trainer()


async def test_each_grant_is_a_token_of_its_own(manager: SessionManager) -> None:
    access = Access([TRAINER], mcp_url=lambda environment: f"http://here/{environment}/mcp")
    session = manager.lease("", peer="test")
    first, second = access.grant(session), access.grant_of(manager)(session.id)

    assert first.mcp_url == "http://here/countdown/mcp"
    assert first.token != second.token
    assert len(first.token) >= 43
    assert access.principal(first.token) == access.principal(second.token) == Agent(session.id)


async def test_an_agents_token_ends_with_its_session(manager: SessionManager) -> None:
    access = Access([TRAINER])
    ended, lives = manager.lease("", peer="test"), manager.lease("", peer="test")
    token, other = access.grant(ended).token, access.grant(lives).token
    manager.end_session(ended.id, SessionClosedError("closed"))

    assert access.principal(token) is None
    assert access.principal(other) == Agent(lives.id)


async def test_tokens_of_ended_sessions_are_not_kept(manager: SessionManager) -> None:
    access = Access([TRAINER])
    for _ in range(3):
        session = manager.lease("", peer="test")
        access.grant(session)
        manager.end_session(session.id, SessionClosedError("closed"))
        del session
    gc.collect()

    assert len(access._agents) == 0


async def test_a_token_is_in_no_text(manager: SessionManager) -> None:
    access = Access([TRAINER])
    granted = access.grant(manager.lease("", peer="test"))

    told = [repr(access), repr(granted), str(access.principal(granted.token)), str(vars(access))]
    for token in (granted.token, "wrong-token"):
        with pytest.raises((PermissionDeniedError, UnauthenticatedError)) as refused:
            access.admit(Area.EPISODES, token)
        told.append(str(refused.value))
    assert not [
        text for text in told for token in (TRAINER, granted.token, "wrong-token") if token in text
    ]


@pytest.mark.parametrize(
    ("principal", "named", "meant"),
    [
        (Agent("own"), "", "own"),
        (Agent("own"), "own", "own"),
        (Trainer(), "any", "any"),
        (Trainer(), "", ""),
    ],
)
def test_whose_tools_are_meant(principal: Principal, named: str, meant: str) -> None:
    assert tools_session(principal, named) == meant


def test_an_agent_does_not_mean_anothers_tools() -> None:
    with pytest.raises(PermissionDeniedError):
        tools_session(Agent("own"), "other")


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer secret", "secret"),
        ("bearer secret", "secret"),
        ("  BEARER   secret ", "secret"),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Basic secret", ""),
        ("secret", ""),
        ("", ""),
    ],
)
def test_a_bearer_token_is_read(header: str, token: str) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize(("value", "tokens"), [("", ()), ("  ", ()), (" secret ", ("secret",))])
def test_the_environments_token_is_read(
    monkeypatch: pytest.MonkeyPatch, value: str, tokens: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_TOKEN", value)

    assert environment_tokens() == tokens
