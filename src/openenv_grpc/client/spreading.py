"""The sessions of a process, spread over the worker processes of a server that has several."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from openenv_grpc.client import connections
from openenv_grpc.client.connections import Joined, Wanted
from openenv_grpc.client.operations import Group
from openenv_grpc.client.remote_session import RemoteSession
from openenv_grpc.client.traced_session import traced
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target
from openenv_grpc.client.waiting import FIRST_DELAY_S, first_opened, opened_once_there
from openenv_grpc.client.worker_targets import worker_targets
from openenv_grpc.crew import worker_of
from openenv_grpc.errors import (
    InvalidRequestError,
    OpenEnvError,
    SessionCapacityError,
    UnavailableError,
)
from openenv_grpc.events import log_event

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 3.0
"""How long a further worker may take to answer where one has answered already."""

TOGETHER_S = 0.5
"""How long the parts of a group wait for slots at the same time."""

AVOIDED_S = 10.0
"""How long a worker that could not be reached is left alone."""


@dataclass(slots=True)
class _Spread:
    """What is known of one server's workers on one event loop."""

    server_id: str
    targets: tuple[Target, ...]
    avoided: dict[Target, float] = field(default_factory=dict)
    """Until when workers are left alone that could not be reached; they are away till they are."""
    turn: int = field(default_factory=lambda: random.randrange(2**16))
    """Which of equals comes first: another in each process, and each time."""

    def ranked(self, options: ConnectionOptions) -> list[Target]:
        """Lists workers that are not left alone, first those with the fewest of our sessions."""
        self.turn += 1
        first, now = self.turn % len(self.targets), asyncio.get_running_loop().time()
        turned = [*self.targets[first:], *self.targets[:first]]
        there = [
            target
            for target in turned
            if self.avoided.get(target, 0.0) <= now or connections.stands(target, options)
        ]
        return sorted(
            there or turned, key=lambda target: connections.session_count(target, options)
        )

    async def join(
        self,
        target: Target,
        options: ConnectionOptions,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        beside: Joined | None = None,
    ) -> Joined:
        """Joins a worker. Raises `UnavailableError` also if another server is there."""
        joined = await connections.join(
            target, options, connect_timeout_s=connect_timeout_s, beside=beside
        )
        crew = joined.crew
        if (self.server_id if crew is None else crew.server_id) == self.server_id:
            self.avoided.pop(target, None)
            return joined
        await joined.shared.leave()
        raise UnavailableError(f"{target.uri} is another server than the one that named it")

    def avoid(self, target: Target, error: OpenEnvError) -> None:
        """Leaves a worker alone for a while."""
        known = target in self.avoided
        self.avoided[target] = asyncio.get_running_loop().time() + AVOIDED_S
        if not known:
            log_event(
                logger,
                logging.WARNING,
                "worker not reached; sessions go to the others",
                target=target.uri,
                detail=error.message,
            )

    def forgive(self) -> None:
        """Leaves no worker alone any more."""
        self.avoided = dict.fromkeys(self.avoided, 0.0)


_spreads: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Target, _Spread]] = (
    weakref.WeakKeyDictionary()
)
"""By event loop and by what was dialled; outlasts connections, for when that is not there."""


async def open_session(target: Target, options: ConnectionOptions, wanted: Wanted) -> RemoteSession:
    """Opens a session on a server, over the connection that this process has to it if it has one.

    Of several workers it is opened on that on which this process has the fewest sessions, of those
    that have a free slot. It waits for one only where none of them has.

    Raises:
        OpenEnvError: the server cannot be reached, or opens none.
    """
    home = await _reach(target, options, wanted)
    spread = _spread_of(target, home)
    if spread is None:
        return await connections.open_session(home, wanted)
    home.shared.keep()
    try:
        return await _Opener(spread, home, options, wanted).open()
    finally:
        await home.shared.let_go()


async def open_group(
    target: Target, options: ConnectionOptions, wanted: Wanted, count: int
) -> list[RemoteSession]:
    """Opens sessions that get their slots together: all or none.

    Of several workers each opens its even part. Where those have no free slots at once, they are
    asked one after the other, so that no two groups wait for what the other holds.

    Raises:
        OpenEnvError: the server cannot be reached, or opens none.
    """
    if count == 1:
        opening = open_session(target, options, wanted)
        return [await traced(opening, target=target, environment=wanted.environment)]
    home = await _reach(target, options, wanted)
    home.shared.keep()
    try:
        spread = _spread_of(target, home)
        if spread is None:
            spread = _Spread("" if home.crew is None else home.crew.server_id, (home.target,))
        return await _Opener(spread, home, options, wanted).open_group(count)
    finally:
        await home.shared.let_go()


async def _reach(target: Target, options: ConnectionOptions, wanted: Wanted) -> Joined:
    """Joins the worker that was asked for; another of the same server if that is not there."""
    try:
        return await connections.join(target, options, connect_timeout_s=wanted.connect_timeout_s)
    except UnavailableError:
        spread = _spreads.get(asyncio.get_running_loop(), {}).get(target)
        if spread is None:
            raise
        for other in spread.targets:
            with contextlib.suppress(UnavailableError):
                return await spread.join(other, options)
        raise


def _spread_of(target: Target, home: Joined) -> _Spread | None:
    """Returns what is known of the workers; `None` if there is one process, or one in reach."""
    known = _spreads.setdefault(asyncio.get_running_loop(), {})
    crew = home.crew
    targets = () if crew is None else worker_targets(home.target, crew)
    if crew is None or not targets:
        known.pop(target, None)
        return None
    spread = known.get(target)
    if spread is None or (spread.server_id, spread.targets) != (crew.server_id, targets):
        spread = known[target] = _Spread(crew.server_id, targets)
    return spread


class _Opener:
    """Opens sessions on some of a server's workers."""

    def __init__(
        self, spread: _Spread, home: Joined, options: ConnectionOptions, wanted: Wanted
    ) -> None:
        self._spread = spread
        self._home = home
        self._options = options
        self._wanted = wanted

    async def open(self) -> RemoteSession:
        """Opens one where there is a free slot, or waits for one."""
        ranked = self._ranked()
        away = [target for target in self._eligible() if target not in ranked]
        # Where there may be a slot elsewhere, nobody waits.
        last_s = 0.0 if len(ranked) + len(away) > 1 else self._wanted.queue_timeout_s
        at_once = replace(self._wanted, queue_timeout_s=last_s)
        full: Target | None = None
        failure: OpenEnvError | None = None
        for target in ranked:
            try:
                return await self._open_at(target, at_once)
            except SessionCapacityError as error:
                full, failure = full or target, error
            except UnavailableError as error:
                self._spread.avoid(target, error)
                away.append(target)
                failure = failure or error
        if full is not None and self._wanted.queue_timeout_s > last_s:
            retries = [
                opened_once_there(partial(self._open_at, target, at_once)) for target in away
            ]
            return await first_opened(self._open_at(full, self._wanted), retries)
        assert failure is not None  # there is at least one worker
        raise failure

    async def open_group(self, count: int) -> list[RemoteSession]:
        """Opens some, all or none, on as many workers as there are, and can be reached.

        Where those have too few slots for it, the others are waited for as long as for any server.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wanted.connect_timeout_s
        while True:
            try:
                return await self._open_divided(count)
            except InvalidRequestError as error:
                away = ", ".join(target.uri for target in self._spread.avoided)
                if not away:
                    raise
                if loop.time() >= until:
                    raise UnavailableError(
                        f"{count} sessions do not fit without {away}, which cannot be reached: "
                        f"{error.message}"
                    ) from error
            await asyncio.sleep(FIRST_DELAY_S)
            self._spread.forgive()

    async def _open_divided(self, count: int) -> list[RemoteSession]:
        """Opens some on the workers that can be reached now."""
        held: list[Joined] = []
        failure: OpenEnvError | None = None
        try:
            for target in self._ranked()[:count]:
                try:
                    held.append(await self._join(target))
                    held[-1].shared.keep()
                except UnavailableError as error:
                    self._spread.avoid(target, error)
                    failure = error
            if failure is not None and not held:
                raise failure
            return await self._open_parts(self._parts(held, count))
        finally:
            for joined in held:
                await joined.shared.let_go()

    def _eligible(self) -> Sequence[Target]:
        """Lists the workers that could open what is wanted."""
        worker, targets = worker_of(self._wanted.snapshot_id), self._spread.targets
        if worker is None or worker >= len(targets):
            return targets
        return targets[worker : worker + 1]  # a snapshot stays where it was taken

    def _ranked(self) -> list[Target]:
        """Lists the workers that may be asked now, the best one first."""
        eligible = self._eligible()
        if len(eligible) == 1:
            return list(eligible)
        return self._spread.ranked(self._options)

    def _parts(self, held: Sequence[Joined], count: int) -> dict[Target, int]:
        """Divides a group as the server divides its slots, and lists workers by their numbers."""
        chosen = {joined.target for joined in held}
        targets = [target for target in self._spread.targets if target in chosen]
        size, left = divmod(count, len(targets))
        return {target: size + (place < left) for place, target in enumerate(targets)}

    async def _open_parts(self, parts: Mapping[Target, int]) -> list[RemoteSession]:
        last_s = self._wanted.queue_timeout_s
        at_once_s = last_s if len(parts) == 1 else min(last_s, TOGETHER_S)
        at_once = replace(self._wanted, queue_timeout_s=at_once_s)
        try:
            found = await asyncio.gather(
                *(self._open_part(target, size, at_once) for target, size in parts.items()),
                return_exceptions=True,
            )
            return await _all_or_none(found)
        except SessionCapacityError:
            if last_s <= at_once_s:
                raise
        opened: list[list[RemoteSession] | BaseException] = []
        for target, size in parts.items():
            try:
                opened.append(await self._open_part(target, size, self._wanted))
            except BaseException as error:
                opened.append(error)
                break
        return await _all_or_none(opened)

    async def _open_part(self, target: Target, size: int, wanted: Wanted) -> list[RemoteSession]:
        """Opens a group on one worker."""
        group = Group(size) if size > 1 else None
        opening = (
            traced(
                self._open_at(target, wanted, group),
                target=target,
                environment=wanted.environment,
            )
            for _ in range(size)
        )
        found = await asyncio.gather(*opening, return_exceptions=True)
        return await _all_or_none(
            [each if isinstance(each, BaseException) else [each] for each in found]
        )

    async def _open_at(
        self, target: Target, wanted: Wanted, group: Group | None = None
    ) -> RemoteSession:
        joined = await self._join(target)
        return await connections.open_session(joined, wanted, group=group)

    async def _join(self, target: Target) -> Joined:
        limit_s = self._wanted.connect_timeout_s
        if target != self._home.target:
            limit_s = min(limit_s, CONNECT_TIMEOUT_S)
        return await self._spread.join(
            target, self._options, connect_timeout_s=limit_s, beside=self._home
        )


async def _all_or_none(found: Sequence[list[RemoteSession] | BaseException]) -> list[RemoteSession]:
    """Returns sessions; closes them, and raises the first error, if there is one."""
    failed = [each for each in found if isinstance(each, BaseException)]
    opened = [one for each in found if not isinstance(each, BaseException) for one in each]
    if failed:
        await asyncio.gather(*(session.close() for session in opened))
        raise failed[0]
    return opened
