"""What the engine keeps of an episode, so that an environment's author need not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openenv_grpc.environment import EpisodeBooks, EpisodeRandom
from openenv_grpc.ids import random_uuid
from openenv_grpc.tools import ToolAnswer
from openenv_grpc.types import JsonValue


@dataclass(slots=True)
class Books:
    """The episode of one session, as far as the engine can see it."""

    episode: EpisodeBooks = field(default_factory=EpisodeBooks)
    """What the environment's default `state` reads."""
    total_steps: int = 0
    """Steps over all episodes."""
    started: bool = False
    """Whether there was a reset."""
    under_way: bool = False
    """Whether something has been done that is not over: by a reset, a step or a tool."""
    done: bool = False
    truncated: bool = False
    earned: float | None = None
    """Reward of tool calls since the last step; `None` where no tool gave any."""
    earned_parts: dict[str, float] = field(default_factory=dict)

    def start(self, episode_id: str | None, seed: object) -> None:
        """Opens the page of a new episode."""
        self.episode.seed = seed if isinstance(seed, int | float | str) else None
        self.episode.episode_id = episode_id or random_uuid()
        self.episode.step_count = 0
        self.started = True
        self.done = self.truncated = self.under_way = False
        self.settle()

    def saw(self, *, done: bool, truncated: bool, steps: int = 0) -> None:
        """Notes whether the episode is over, after as many more steps."""
        if steps:
            self.episode.step_count += steps
            self.total_steps += steps
        self.done = over = done or truncated
        self.truncated = truncated
        self.under_way = not over

    def settle(self) -> None:
        """Notes that what was earned so far is reported, or of the past."""
        self.earned = None
        if self.earned_parts:
            self.earned_parts = {}

    def earn(self, answer: ToolAnswer) -> None:
        """Notes a tool call, and what it had for the trainer."""
        self.under_way = not self.done
        if answer.reward is not None:
            self.earned = (self.earned or 0.0) + answer.reward
        add_up(self.earned_parts, answer.rewards)
        if answer.terminated or answer.truncated:
            self.saw(done=True, truncated=answer.truncated)

    def saved(self) -> dict[str, JsonValue]:
        """Returns what another session needs to go on from here."""
        return {
            "episode_id": self.episode.episode_id,
            "step_count": self.episode.step_count,
            "started": self.started,
            "under_way": self.under_way,
            "done": self.done,
            "truncated": self.truncated,
            "earned": self.earned,
            "earned_parts": self.earned_parts,
        }

    def restore(self, saved: Mapping[str, JsonValue]) -> None:
        """Goes on from what another session saved. Steps of this one count from 0."""
        self.episode.episode_id = saved["episode_id"]
        self.episode.step_count = saved["step_count"]
        self.started, self.under_way = saved["started"], saved["under_way"]
        self.done, self.truncated = saved["done"], saved["truncated"]
        self.earned, self.earned_parts = saved["earned"], dict(saved["earned_parts"])


def add_up(sums: dict[str, float], parts: Mapping[str, float]) -> None:
    """Adds parts of a reward to their sums."""
    for name, part in parts.items():
        sums[name] = sums.get(name, 0.0) + part


def write_random_state(source: EpisodeRandom) -> JsonValue:
    """Writes where a source of randomness is."""
    return source.getstate()


def read_random_state(state: JsonValue) -> EpisodeRandom:
    """Makes a source of randomness that goes on from there."""
    version, internal, gauss = state
    source = EpisodeRandom()
    source.setstate((version, tuple(internal), gauss))
    return source
