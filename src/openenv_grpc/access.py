"""Who may reach what: trainers, agents of one session each, and whoever has no token."""

from __future__ import annotations

import enum
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from weakref import WeakValueDictionary

from openenv_grpc.errors import PermissionDeniedError, UnauthenticatedError
from openenv_grpc.sessions import SessionHost, SessionPort, SessionState

TOKEN_VARIABLE = "OPENENV_GRPC_TOKEN"
"""Has the trainer's token, for servers and for clients that are told no other."""


class Area(enum.Enum):
    """What the same principals may reach, on every door: one row of the table."""

    EPISODES = "sessions and episodes"
    TOOLS = "tools"
    CATALOG = "the catalogue and the contract"
    TASKS = "tasks"
    ADMIN = "the server's administration"
    HEALTH = "health"


@dataclass(frozen=True, slots=True)
class Trainer:
    """Who trains, or runs the server."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Who acts in one session."""

    session_id: str


Principal = Trainer | Agent | None
"""`None` is whoever brings no valid token."""

REACHED_BY: Mapping[Area, frozenset[type[Trainer | Agent | None]]] = {
    Area.EPISODES: frozenset({Trainer}),
    Area.TOOLS: frozenset({Trainer, Agent}),  # an agent those of its session: `tools_session`
    Area.CATALOG: frozenset({Trainer, Agent}),
    Area.TASKS: frozenset({Trainer}),
    Area.ADMIN: frozenset({Trainer}),
    Area.HEALTH: frozenset({Trainer, Agent, NoneType}),
}
"""The table, for all doors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAccess:
    """What an agent needs to use the tools of one session."""

    token: str = field(repr=False)
    """Empty where agents get none."""
    mcp_url: str
    """Empty where there is no HTTP door."""


Grant = Callable[[str], AgentAccess]
"""Mints access for an agent of a session, by the session's id."""


def no_mcp_url(environment: str) -> str:
    """Tells that there is no HTTP door."""
    return ""


class Access:
    """The tokens of one server. Without any of a trainer's it asks trainers for none.

    An agent's token is valid as long as its session lives.
    """

    def __init__(
        self,
        trainer_tokens: Iterable[str] = (),
        *,
        agent_tokens: bool = False,
        mcp_url: Callable[[str], str] = no_mcp_url,
    ) -> None:
        """Takes the trainers' tokens; `mcp_url` tells where an environment's tools are.

        With any, agents get tokens too. With `agent_tokens` they get them without any: who brings
        no token is a trainer then, but the doors that are for tools take agents' tokens alone.
        """
        # Tokens are looked up by a keyed hash, so that how long that takes tells nothing of them.
        self._key = secrets.token_bytes(32)
        self._trainers = frozenset(self._digest(token) for token in trainer_tokens)
        self._agents: WeakValueDictionary[bytes, SessionPort] = WeakValueDictionary()
        self._mints = agent_tokens or self.asks
        self._mcp_url = mcp_url

    @property
    def asks(self) -> bool:
        """Whether trainers are asked for tokens."""
        return bool(self._trainers)

    @property
    def mints(self) -> bool:
        """Whether agents get tokens. Where not, trainers are asked for none either."""
        return self._mints

    def principal(self, token: str | None) -> Principal:
        """Tells whose token it is; everybody is a trainer where there are no tokens.

        A token that nobody has is nobody's, also where who brings none is a trainer.
        """
        if not self._mints:
            return Trainer()
        if token is None:
            return None if self.asks else Trainer()
        digest = self._digest(token)
        if digest in self._trainers:
            return Trainer()
        session = self._agents.get(digest)
        if session is None or session.info().state in (SessionState.CLOSING, SessionState.CLOSED):
            return None
        return Agent(session.id)

    def admit(self, area: Area, token: str | None) -> Principal:
        """Tells whose token it is, if that principal may reach the area.

        Raises:
            UnauthenticatedError: there is no token, or nobody has it.
            PermissionDeniedError: it is an agent's, and the area is not for agents.
        """
        principal = self.principal(token)
        if token is None and area is Area.TOOLS and self._mints and not self.asks:
            raise UnauthenticatedError(
                "tools are for agents' tokens here (--agent-tokens), which `open` mints for those "
                "who ask; send one as `authorization: Bearer TOKEN`"
            )
        if type(principal) in REACHED_BY[area]:
            return principal
        if principal is not None:
            raise PermissionDeniedError(f"an agent's token does not open {area.value}")
        if not token and self.asks:
            raise UnauthenticatedError(
                "this server asks for a token; send it as `authorization: Bearer TOKEN`"
            )
        told = "" if self.asks else "; trainers bring none to this server"
        raise UnauthenticatedError(f"the token is not valid here, or its session has ended{told}")

    def grant(self, session: SessionPort) -> AgentAccess:
        """Mints access for an agent of a session."""
        token = ""
        if self._mints:
            token = secrets.token_urlsafe(32)
            self._agents[self._digest(token)] = session
        return AgentAccess(token=token, mcp_url=self._mcp_url(session.spec.name))

    def grant_of(self, host: SessionHost) -> Grant:
        """Returns what mints access to the sessions of a host."""
        return lambda session_id: self.grant(host.find(session_id))

    def _digest(self, token: str) -> bytes:
        content = token.encode(errors="surrogatepass")
        return hashlib.blake2b(content, key=self._key, digest_size=32).digest()


def tools_session(principal: Principal, session_id: str) -> str:
    """Returns the session whose tools are meant: an agent's own, also if it names none.

    Raises:
        PermissionDeniedError: an agent names another.
    """
    if not isinstance(principal, Agent):
        return session_id
    if session_id not in ("", principal.session_id):
        raise PermissionDeniedError("an agent's token opens the tools of its own session alone")
    return principal.session_id


def environment_tokens() -> tuple[str, ...]:
    """Returns the token that the process's environment has, if it has one."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return (token,) if token else ()


def bearer_token(header: str) -> str:
    """Returns the token in an `authorization` header; an empty one, nobody's, if it has none.

    That is not the same as no header: who means to bring a token must not pass for a trainer.
    """
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
