"""All rows, in the groups that they are run and shown in: ten to twelve minutes, if it is quiet."""

from __future__ import annotations

from bench import grids
from bench.rows import Group, Growth, Row
from bench.scenarios import PROMISES

GROUPS = (
    Group(
        title="What is promised",
        about="Against OpenEnv 0.10 as it is installed, and processes against threads.",
        rows=PROMISES, rounds=3, seconds=0.8, quick=True,
    ),
    Group(
        title="End to end",
        about="What a trainer sees: the environment's part of a rollout, and who waits for whom.",
        rows=grids.END_TO_END, rounds=2, seconds=1.5, quick=True,
    ),
    Group(
        title="A tool call by each door",
        about="One agent, one call after the other, without an SDK; beside a bare socket.",
        rows=grids.AGENTS, rounds=2, seconds=0.5, quick=True,
    ),
    Group(
        title="By sessions",
        about="Tiny steps of all sessions of one client process, a thread each on the server.",
        rows=grids.BY_SESSIONS, rounds=2, seconds=0.6, axis="sessions",
    ),
    Group(
        title="By size of the observation",
        about="One session is shown a text. Arrays are among what is promised.",
        rows=grids.BY_SIZE, rounds=2, seconds=0.4, axis="bytes",
    ),
    Group(
        title="By cost of the environment",
        about="The more a step computes, the less the way to it matters.",
        rows=grids.BY_COST, rounds=2, seconds=0.5,
    ),
    Group(
        title="Beside others",
        about="dm_env_rpc has a stream and a thread a session; AsyncVectorEnv a process, and no "
        "network.",
        rows=grids.RIVALS, rounds=2, seconds=0.8,
    ),
    Group(
        title="The limit of the machine",
        about="Bare sockets on uvloop, which validate nothing and run no environment.",
        rows=grids.LIMIT_OF_THE_MACHINE, rounds=3, seconds=0.8,
    ),
    Group(
        title="What a process costs",
        about="`--isolation process` beside a thread for each session.",
        rows=grids.PROCESSES, rounds=2, seconds=0.8,
    ),
    Group(
        title="A server on one processor",
        about="`--pin`, with a thread for each session, beside a server that may use all.",
        rows=grids.PINNED, rounds=3, seconds=0.8,
    ),
    Group(
        title="Cost of a step as sessions grow",
        about="The server's processor time is to grow by no more than half from 64 to 1,000.",
        rows=grids.COST_BY_SESSIONS, rounds=2, seconds=0.8, axis="sessions",
        growth=Growth(start=64, end=1000, most=1.5),
    ),
    Group(
        title="Memory as sessions grow",
        about="Resident memory that each of so many idle sessions adds to the server.",
        rows=grids.MEMORY_BY_SESSIONS, rounds=1, seconds=0.5, axis="sessions",
        growth=Growth(start=1000, end=5000, most=1.25),
    ),
)  # fmt: skip


def all_rows() -> list[Row]:
    """Returns the rows of all groups."""
    return [row for group in GROUPS for row in group.rows]
