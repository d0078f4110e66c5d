"""The rows that show how something grows: one for each point of an axis, every door a side."""

from __future__ import annotations

from bench.rows import Limit, Row
from bench.scenarios import ours, theirs
from bench.sides import Door, ServerSpec, Side

SESSIONS = (1, 16, 64, 256, 1000)
SIZES = {
    "50 B": 50, "1 KiB": 2**10, "16 KiB": 2**14, "128 KiB": 2**17, "1 MiB": 2**20, "4 MiB": 2**22,
}  # fmt: skip
COSTS = {
    "nothing": ("Tiny", 64, 0.0),
    "200 us of Python": ("Works200us", 64, 0.2),
    "1 ms of sleep": ("Sleeps1ms", 64, 1.0),
    "5 ms of Python": ("Works5ms", 4, 5.0),
}
GROWTH = (1, 64, 1000, 5000)
IDLE_GROWTH = (250, 1000, 5000)
FRAME_BYTES = 2**20
ROLLOUTS = 64


def counted(sessions: int) -> str:
    """Writes a number of sessions."""
    return f"{sessions:,} session{'' if sessions == 1 else 's'}"


def doors(environment: str) -> tuple[Side, ...]:
    """Returns an environment by all of our doors, and the reference tuned and as it is."""
    return (
        ours(environment, label="gRPC"),
        ours(environment, label="unix", door=Door.UNIX),
        ours(environment, label="binary WebSocket", door=Door.HTTP),
        ours(environment, label="/ws JSON", door=Door.HTTP, client="reference"),
        theirs(environment, kind="tuned"),
        theirs(environment),
    )


def rival(kind: str, environment: str = "Tiny") -> Side:
    """Returns a side that is neither ours nor the reference's."""
    server = ServerSpec(kind=kind, environment=environment)
    return Side(label=kind, server=server, client=kind, door=Door.HTTP)


BY_SESSIONS = tuple(
    Row(name=f"tiny step, {counted(count)}", sides=doors("Tiny"), sessions=count, at=count)
    for count in SESSIONS
)
BY_SIZE = tuple(
    Row(name=f"text of {name}", sides=doors("Sized"), size_bytes=size, at=size)
    for name, size in SIZES.items()
)
BY_COST = tuple(
    Row(name=f"step costs {name}, {counted(sessions)}", sides=doors(environment),
        sessions=sessions, at=cost_ms)
    for name, (environment, sessions, cost_ms) in COSTS.items()
)  # fmt: skip

GYMNASIUM = Side(label="AsyncVectorEnv", server=ServerSpec(kind="none"), client="gymnasium",
                 door=Door.NONE, mode="async_vector_env")  # fmt: skip
RIVALS = (
    *(
        Row(name=f"dm_env_rpc, tiny step, {counted(count)}",
            sides=(ours(label="gRPC"), ours(label="binary WebSocket", door=Door.HTTP),
                   rival("dm_env_rpc")), sessions=count)
        for count in (1, 64)
    ),
    Row(name="dm_env_rpc, 84x84x4 frame", sides=(ours("Frame"), rival("dm_env_rpc", "Frame"))),
    Row(name="dm_env_rpc, 1 MiB frame", sides=(ours("Megabyte"), rival("dm_env_rpc", "Megabyte"))),
    Row(name="AsyncVectorEnv, 64 in lockstep, arrays", action="array", sessions=64,
        sides=(ours("SharedArrays", mode="vector"), GYMNASIUM)),
)  # fmt: skip
LIMIT_OF_THE_MACHINE = (
    Row(name="ping-pong, p50 of 1 session", figure="p50_us",
        sides=(ours(label="gRPC"), ours(label="unix", door=Door.UNIX),
               ours(label="binary WebSocket", door=Door.HTTP), rival("ping_pong"))),
    Row(name="ping-pong, 1 MiB frames, share of loopback", figure="mib_per_s",
        size_bytes=FRAME_BYTES,
        sides=(ours("Megabyte", label="gRPC"),
               ours("Megabyte", label="unix", door=Door.UNIX),
               ours("Megabyte", label="binary WebSocket", door=Door.HTTP), rival("ping_pong"))),
)  # fmt: skip

END_TO_END = (
    Row(name="64 x 20 turns with a model of 200 ms", figure="environment_percent", mode="rollout",
        sides=(ours(label="gRPC"), theirs()), sessions=ROLLOUTS,
        limits=(Limit(figure="environment_percent", most=1),)),
    *(
        Row(name=f"32 sessions {pace} beside one that burns 20 ms, {label}", figure="p99_ms",
            mode="mixed", sides=(ours("Mixed", label=label, isolation=isolation),), sessions=32,
            pause_s=pause_s, limits=(Limit(figure="p99_ms", most=most),))
        for label, isolation, most in (("threads", "thread", 60), ("processes", "process", 15))
        for pace, pause_s in (("at full speed", 0), ("of 20 steps/s", 0.05))
    ),
)  # fmt: skip

AGENT_LIMIT_US = 3000
AGENTS = tuple(
    Row(name=f"a tool call by {name}, p50", figure="p50_us",
        sides=(ours(label=name, client=client, door=door), rival("ping_pong")),
        limits=(Limit(figure="p50_us", most=AGENT_LIMIT_US),))
    for name, client, door in (
        ("gRPC step", "ours", Door.GRPC),
        ("ToolService", "agent_tool_service", Door.GRPC),
        ("/ws step", "reference", Door.HTTP),
        ("/ws mcp frame", "agent_frame", Door.HTTP),
        ("/mcp of 2025-11-25", "agent_legacy", Door.HTTP),
        ("/mcp of 2026-07-28", "agent_modern", Door.HTTP),
        ("/mcp of OpenEnv", "agent_openenv", Door.HTTP),
    )
)  # fmt: skip

PROCESSES = tuple(
    Row(name=f"{name}, {counted(sessions)}, processes against threads",
        sides=(ours(environment, label="processes", isolation="process"),
               ours(environment, label="threads", isolation="thread")), sessions=sessions)
    for name, environment, sessions in (
        ("tiny step", "Tiny", 1), ("tiny step", "Tiny", 16), ("1 MiB frame", "Megabyte", 1),
    )
)  # fmt: skip

PINNED = tuple(
    Row(name=f"{name}, 64 sessions, pinned", sessions=64,
        sides=(ours(environment, label="pinned", pinned=True), ours(environment, label="not"),
               theirs(environment)))
    for name, environment in (
        ("tiny step", "Tiny"), ("the environment sleeps 1 ms", "Sleeps1ms"),
    )
)  # fmt: skip

COST_BY_SESSIONS = tuple(
    Row(name=f"cost of a step, {counted(count)}", figure="server_us_per_step", sessions=count,
        at=count, sides=(ours(label="a thread each"), ours("SharedTiny", label="shared thread")))
    for count in GROWTH
)  # fmt: skip
MEMORY_BY_SESSIONS = tuple(
    Row(name=f"memory of an idle session, {count:,} open", figure="kib_per_session", mode="idle",
        sessions=count, at=count, fresh=True,
        sides=(ours(label="a thread each"), ours("SharedTiny", label="shared thread")))
    for count in IDLE_GROWTH
)  # fmt: skip
