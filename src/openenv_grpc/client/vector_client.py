"""Many sessions driven as one: Gymnasium's vector calls, and EnvPool's send and receive."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, Unpack

from openenv_grpc.client import batches
from openenv_grpc.client.actions import read_actions
from openenv_grpc.client.blocks import AsyncBlock
from openenv_grpc.client.remote_session import no_answer
from openenv_grpc.client.seats import Autoreset, Seat, Turn
from openenv_grpc.client.sync_vector import SyncVectorEnvClient
from openenv_grpc.client.vector_results import VectorStep, infos_of, step_of
from openenv_grpc.client.vector_sessions import ConnectionArguments, VectorSessions
from openenv_grpc.errors import InvalidRequestError, OpenEnvError
from openenv_grpc.types import JsonValue
from openenv_grpc.wire.alike import Alike

Seeds = int | Sequence[int | None] | None


class VectorEnvClient(AsyncBlock):
    """Drives `num_envs` sessions of an environment in one call each.

    ```python
    async with VectorEnvClient("grpc://127.0.0.1:50051", 64) as envs:
        observations, infos = await envs.reset(seed=1)
        step = await envs.step({"message": ["hello"] * 64})
    ```

    Results are batches: a field of the observations is a numpy array with one row an environment
    where the rows agree in shape, else a tuple. Where an episode ends, `autoreset` tells what
    happens: with `next_step` the next step of that environment ignores its action and resets it,
    with `same_step` it is reset at once and the last observation is in `infos["final_obs"]`, with
    `disabled` the caller resets it by `reset(options={"reset_mask": mask})`.

    An environment whose session is lost is truncated, with the error in `infos["error"]`; the
    others go on, and its next reset opens a session anew. All other errors are raised once every
    answer is there, unless `errors="mask"` puts them into `infos["error"]`, too.

    `send` and `recv` are for callers who do not wait for the slowest: `recv` returns as soon as
    `batch_size` environments are ready, and tells which in `infos["env_id"]`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        num_envs: int = 1,
        *,
        batch_size: int | None = None,
        autoreset: str = Autoreset.NEXT_STEP,
        copy: bool = True,
        errors: Literal["raise", "mask"] = "raise",
        **connection: Unpack[ConnectionArguments],
    ) -> None:
        """Makes a client; nothing is sent before `connect` or the first `reset`.

        `copy=False` has observations use the same memory in every batch. See `EnvClient` for the
        other arguments.

        Raises:
            InvalidRequestError: an argument is of no use.
        """
        if num_envs < 1:
            raise InvalidRequestError(f"num_envs is at least 1, not {num_envs}")
        if not 1 <= (batch_size or num_envs) <= num_envs:
            raise InvalidRequestError(
                f"batch_size is between 1 and num_envs, {num_envs}, not {batch_size}"
            )
        self.num_envs = num_envs
        self.batch_size = batch_size or num_envs
        self.autoreset = Autoreset.read(autoreset)
        self._sessions = VectorSessions(base_url, **connection)
        self._masks_errors = errors == "mask"
        self._seats = [Seat(index) for index in range(num_envs)]
        self.alike = Alike()
        """Recognizes observations that are alike (`seats.Owner`)."""
        self._stack = batches.Stack(reuse=not copy)
        self._ready: deque[Turn] = deque()
        self._turns: dict[int, Turn] = {}  # by environment, those without an answer
        self._wanted = 0
        self._waiter: asyncio.Future[None] | None = None
        self._reopening: set[asyncio.Task[None]] = set()
        self._connected = False
        self._limit_s = 0.0  # for an answer, by the caller's word or the environments'

    @property
    def shares_memory(self) -> bool:
        """Whether large messages of all sessions go through memory; not so before `connect`."""
        sessions = [seat.session for seat in self._seats]
        return all(session is not None and session.shares_memory for session in sessions)

    def sync(self) -> SyncVectorEnvClient:
        """Returns the same client with methods that block."""
        return SyncVectorEnvClient(self)

    async def connect(self) -> Self:
        """Opens the sessions, all or none. The first `reset` does it too.

        Raises:
            UnavailableError: the server cannot be reached.
            InvalidRequestError: it never has as many slots.
            SessionCapacityError: it had not as many free ones within `queue_timeout_s`.
        """
        if not self._connected:
            for seat, session in zip(
                self._seats, await self._sessions.open(self.num_envs), strict=True
            ):
                seat.session = session
                self._limit_s = max(self._limit_s, session.limits.other_s)
            self._connected = True
        return self

    async def reset(
        self, *, seed: Seeds = None, options: Mapping[str, JsonValue] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts an episode in each environment; returns observations and infos.

        An integer `seed` is that of the first environment; the others count on from it. `options`
        go to every environment, but for `reset_mask`, a boolean for each environment: the others
        stay as they are, and their rows show what was seen last.

        Raises:
            OpenEnvError: an environment could not be reset; `metadata["env"]` tells which.
        """
        await self.connect()
        await self._settle()
        keywords = dict(options or {})
        chosen = self._masked(keywords.pop("reset_mask", None))
        self._post_resets(chosen, seed, keywords)
        turns = {turn.seat.index: turn for turn in await self._take(len(chosen))}
        for turn in turns.values():
            if turn.error is not None:
                raise turn.told()
        observed = self._stack.observations([seat.observation() for seat in self._seats])
        infos = [turns[index].info if index in turns else {} for index in self._indices()]
        return observed, infos_of(infos)

    def async_reset(
        self, *, seed: Seeds = None, options: Mapping[str, JsonValue] | None = None
    ) -> None:
        """Starts an episode in each environment; `recv` returns the first observations.

        Raises:
            InvalidRequestError: the client is not connected, or answers are still due.
        """
        self._check_connected()
        self._check_idle(self._indices())
        self._post_resets(list(self._indices()), seed, dict(options or {}))

    async def step(self, actions: Any) -> VectorStep:
        """Applies an action in each environment, and waits for all.

        `actions` is a sequence of actions, or a mapping that gives each field of the action a
        batch: `{"forces": array_of_shape_64_3}`.

        Raises:
            InvalidRequestError: there is not an action for each environment, or an episode is over
                and `autoreset` is disabled, or answers to `send` are still due.
            OpenEnvError: an environment's step failed; `metadata["env"]` tells which.
        """
        self.send(actions)
        turns = await self._take(self.num_envs)
        turns.sort(key=_index)
        return self._result(turns)

    def send(self, actions: Any, env_id: Sequence[int] | None = None) -> None:
        """Sends an action to each of some environments, all if `env_id` is not given.

        Raises:
            InvalidRequestError: see `step`. Nothing is sent then.
        """
        self._check_connected()
        indices = list(self._indices()) if env_id is None else [int(index) for index in env_id]
        self._check_idle(indices)
        chosen = read_actions(actions, len(indices))
        if self.autoreset is Autoreset.DISABLED:
            self._check_running(indices)
        for row, index in enumerate(indices):
            seat = self._seats[index]
            turn = self._turns[index] = Turn(self, seat)
            if seat.over:
                turn.reset({})
            else:
                turn.step(chosen, row)

    async def recv(self) -> VectorStep:
        """Waits until `batch_size` environments have answered, or all that were asked.

        Their rows come in the order of the answers, `infos["env_id"]` tells whose they are. After
        `async_reset` the rewards are 0. Cancelling it loses nothing.

        Raises:
            InvalidRequestError: no environment was asked.
            OpenEnvError: see `step`.
        """
        due = len(self._turns) + len(self._ready)
        if not due:
            raise InvalidRequestError("no answers are due; send() actions first")
        return self._result(await self._take(min(self.batch_size, due)))

    async def close(self) -> None:
        """Ends the sessions, and stops the provider."""
        for task in list(self._reopening):
            task.cancel()
        if self._reopening:
            await asyncio.wait(self._reopening)
        self._turns.clear()
        self._ready.clear()
        sessions = [seat.session for seat in self._seats if seat.session is not None]
        self._seats = [Seat(index) for index in self._indices()]
        self._connected = False
        await asyncio.gather(*(session.close() for session in sessions))
        await self._sessions.close()

    # What is asked

    def _indices(self) -> range:
        return range(self.num_envs)

    def _masked(self, mask: Any) -> list[int]:
        if mask is None:
            return list(self._indices())
        if len(mask) != self.num_envs or not any(mask):
            raise InvalidRequestError(
                f"reset_mask has a boolean for each of {self.num_envs} environments, and at least "
                "one that is true"
            )
        for index in self._indices():
            if not mask[index] and not self._seats[index].started:
                raise InvalidRequestError(f"environment {index} was never reset; reset it first")
        return [index for index in self._indices() if mask[index]]

    def _post_resets(self, indices: list[int], seed: Seeds, keywords: dict[str, JsonValue]) -> None:
        seeds = _seeds(seed, self.num_envs)
        for index in indices:
            own = keywords if seeds[index] is None else {**keywords, "seed": seeds[index]}
            turn = self._turns[index] = Turn(self, self._seats[index])
            turn.reset(own)

    def _check_connected(self) -> None:
        if not self._connected:
            raise InvalidRequestError("the sessions are not open; reset() or connect() first")

    def _check_idle(self, indices: Sequence[int]) -> None:
        asked = self._turns.keys() | {turn.seat.index for turn in self._ready}
        busy = sorted(asked.intersection(indices))
        if busy:
            raise InvalidRequestError(
                f"answers of {len(busy)} environments, the first of them {busy[0]}, are still due; "
                "recv() them, or reset()"
            )
        if len(set(indices)) != len(indices) or not set(indices) <= set(self._indices()):
            raise InvalidRequestError(
                f"env_id names environments from 0 to {self.num_envs - 1}, each once"
            )

    def _check_running(self, indices: Sequence[int]) -> None:
        over = [index for index in indices if self._seats[index].over]
        if over:
            raise InvalidRequestError(
                f"the episodes of {over} are over; reset(options={{'reset_mask': mask}}), or let "
                "autoreset do it"
            )

    # What comes back

    def arrived(self, turn: Turn) -> None:
        """Takes a turn that is done (`seats.Owner`)."""
        index = turn.seat.index
        if self._turns.get(index) is turn:
            del self._turns[index]
        self._ready.append(turn)
        waiter = self._waiter
        if waiter is not None and len(self._ready) >= self._wanted and not waiter.done():
            waiter.set_result(None)

    def reopen(self, turn: Turn, keywords: Mapping[str, JsonValue]) -> None:
        """Opens a lost session anew, and resets it (`seats.Owner`)."""
        task = asyncio.get_running_loop().create_task(
            self._reopen(turn, keywords), name="openenv-grpc reopening"
        )
        self._reopening.add(task)
        task.add_done_callback(self._reopening.discard)

    async def _reopen(self, turn: Turn, keywords: Mapping[str, JsonValue]) -> None:
        try:
            last, turn.seat.session = turn.seat.session, (await self._sessions.open(1))[0]
            if last is not None:
                await last.close()
            turn.seat.session.post_reset(keywords, turn)
        except OpenEnvError as error:
            turn.fail(error)

    async def _take(self, count: int) -> list[Turn]:
        """Waits for answers. Those that do not come in time are errors."""
        if self._waiter is not None:
            raise InvalidRequestError("another call waits for answers; one at a time can")
        if len(self._ready) < count:
            loop = asyncio.get_running_loop()
            self._wanted, self._waiter = count, loop.create_future()
            timer = loop.call_later(self._limit_s, self._expire)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        return [self._ready.popleft() for _ in range(count)]

    def _expire(self) -> None:
        for turn in list(self._turns.values()):
            turn.fail(no_answer("the step or reset", self._limit_s))

    async def _settle(self) -> None:
        """Waits for what is under way, and drops it."""
        due = len(self._turns) + len(self._ready)
        if due:
            await self._take(due)

    def _result(self, turns: list[Turn]) -> VectorStep:
        if not self._masks_errors:
            for turn in turns:
                if turn.error is not None and not turn.error.session_lost:
                    raise turn.told()
        return step_of(turns, self._stack.observations([turn.seen for turn in turns]))


def _index(turn: Turn) -> int:
    return turn.seat.index


def _seeds(seed: Seeds, count: int) -> Sequence[int | None]:
    if seed is None:
        return [None] * count
    if isinstance(seed, int):
        return range(seed, seed + count)
    if len(seed) != count:
        raise InvalidRequestError(f"there are {len(seed)} seeds for {count} environments")
    return [None if one is None else int(one) for one in seed]
