"""The rows that promise something: those of the design's table, and absolute figures."""

from __future__ import annotations

from bench.rows import Limit, Row
from bench.sides import Door, ServerSpec, Side

OPENS = 400
IDLE = 1000


def ours(
    environment: str = "Tiny", *, label: str = "ours", door: Door = Door.GRPC,
    client: str = "ours", mode: str = "", isolation: str = "", pinned: bool = False,
) -> Side:  # fmt: skip
    """Returns a side of ours."""
    server = ServerSpec(environment=environment, isolation=isolation, pinned=pinned)
    return Side(label=label, server=server, client=client, door=door, mode=mode)


def theirs(environment: str = "Tiny", *, kind: str = "reference") -> Side:
    """Returns the reference as it is installed, or `tuned`."""
    server = ServerSpec(kind=kind, environment=environment)
    return Side(label=kind, server=server, client=kind, door=Door.HTTP)


def _frame(
    name: str, environment: str, form: str, floor: float, aim: float, door: Door = Door.GRPC
) -> Row:
    sides = (ours(environment, door=door), theirs(form + environment))
    return Row(name=name, floor=floor, aim=aim, sides=sides)


def _processes(name: str, environment: str, sessions: int, floor: float | None = None,
               aim: float | None = None) -> Row:  # fmt: skip
    sides = [
        ours(environment, label=f"{isolation}es" if isolation == "process" else "threads",
             isolation=isolation)
        for isolation in ("process", "thread")
    ]  # fmt: skip
    return Row(name=name, floor=floor, aim=aim, sides=tuple(sides), sessions=sessions)


def _processor_time(most_us: float) -> tuple[Limit, ...]:
    return tuple(Limit(figure=f"{end}_us_per_step", most=most_us) for end in ("server", "client"))


PROMISES = (
    Row(name="1 session, p50, binary WebSocket", figure="p50_us", floor=3, aim=6,
        sides=(ours(door=Door.HTTP), theirs())),
    Row(name="1 session, p50, gRPC", figure="p50_us", floor=1.7, aim=3, sides=(ours(), theirs())),
    Row(name="64 sessions, gRPC, a thread each", floor=5, aim=8, sides=(ours(), theirs()),
        sessions=64, limits=_processor_time(40)),
    Row(name="64 sessions, gRPC, shared thread", floor=8, aim=15,
        sides=(ours("SharedTiny"), theirs()), sessions=64,
        limits=_processor_time(15)),
    Row(name="64 sessions, gRPC, inline", floor=8, aim=15, sides=(ours("InlineTiny"), theirs()),
        sessions=64),
    Row(name="64 sessions, /ws JSON, the reference's client", floor=2, aim=3, sessions=64,
        sides=(ours(door=Door.HTTP, client="reference"), theirs())),
    Row(name="vector client, 64 in lockstep, shared thread", floor=8, aim=25, sessions=64,
        sides=(ours("SharedTiny", mode="vector"), theirs())),
    Row(name="vector client, 64 in lockstep, arrays", floor=20, aim=40, sessions=64,
        sides=(ours("SharedArrays", mode="vector"), theirs("Arrays")), action="array"),
    _frame("84x84x4 frame, against a list", "Frame", "List", 25, 100),
    _frame("84x84x4 frame, against base64", "Frame", "Base64", 5, 20),
    _frame("84x84x4 frame, WebSocket, against a list", "Frame", "List", 25, 100, Door.HTTP),
    _frame("84x84x4 frame, WebSocket, against base64", "Frame", "Base64", 5, 20, Door.HTTP),
    _frame("1 MiB frame, against a list", "Megabyte", "List", 100, 200),
    _frame("1 MiB frame, against base64", "Megabyte", "Base64", 15, 20),
    Row(name="64 sessions, the environment sleeps 1 ms", floor=4, aim=7, sessions=64,
        sides=(ours("Sleeps1ms"), theirs("Sleeps1ms"))),
    _processes("4 sessions, 5 ms of Python, processes against threads", "Works5ms", 4, 1.7, 1.9),
    Row(name="memory of an idle session (1,000)", figure="kib_per_session", floor=3, aim=5,
        sides=(ours(), theirs()), mode="idle", sessions=IDLE, fresh=True),
    Row(name="sessions opened a second", figure="opens_per_s", floor=3, aim=4,
        sides=(ours(), theirs()), mode="open", sessions=OPENS),
    Row(name="server start to READY", figure="start_s", floor=10, aim=20,
        sides=(ours(), theirs()), mode="start"),
)  # fmt: skip
