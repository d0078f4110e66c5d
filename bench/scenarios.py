"""What is measured: a row of the table each, with the floor and the aim that it is held to."""

from __future__ import annotations

from dataclasses import dataclass

from bench.processes import Server, load

OPENS = 400
IDLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a row."""

    server: str
    """The name of an environment of ours, or of the reference's after `reference:`."""
    client: str
    """`ours` or `reference`."""
    door: str
    """`grpc` or `http`."""
    mode: str = ""
    """How the load drives it, if not as the row says."""

    def url(self, server: Server) -> str:
        """Returns the URL that the client is given."""
        return f"grpc://{server.grpc}" if self.door == "grpc" else f"http://{server.http}"


REFERENCE_PREFIX = "reference:"


def _theirs(server: str = "Tiny") -> Side:
    return Side(server=REFERENCE_PREFIX + server, client="reference", door="http")


REFERENCE = _theirs()

Measured = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A scenario on both sides, and the figure by which they are compared."""

    name: str
    figure: str
    higher_is_better: bool
    floor: float
    """The ratio that is promised."""
    aim: float
    """The ratio that is hoped for."""
    ours: Side
    reference: Side = REFERENCE
    mode: str = "step"
    sessions: int = 1
    action: str = "tiny"

    def measure(self, side: Side, server: Server, seconds: float) -> Measured:
        """Measures one side once."""
        return load(
            side.client, side.mode or self.mode, side.url(server), server,
            sessions=self.sessions, seconds=seconds, action=self.action,
        )  # fmt: skip

    def ratio(self, ours: Measured, reference: Measured) -> float:
        """Returns by how much we are better; below 1 we are worse."""
        a, b = ours[self.figure], reference[self.figure]
        return a / b if self.higher_is_better else b / a


def _ours(
    server: str = "Tiny", *, door: str = "grpc", client: str = "ours", mode: str = ""
) -> Side:
    return Side(server=server, client=client, door=door, mode=mode)


def _frame(name: str, environment: str, form: str, floor: float, aim: float) -> Row:
    return Row(name=name, figure="steps_per_s", higher_is_better=True, floor=floor, aim=aim,
               ours=_ours(environment), reference=_theirs(form + environment))  # fmt: skip


ROWS = (
    Row(name="1 session, p50, binary WebSocket", figure="p50_us", higher_is_better=False,
        floor=3, aim=6, ours=_ours(door="http")),
    Row(name="1 session, p50, gRPC", figure="p50_us", higher_is_better=False,
        floor=1.7, aim=3, ours=_ours()),
    Row(name="64 sessions, gRPC, a thread each", figure="steps_per_s", higher_is_better=True,
        floor=5, aim=8, ours=_ours(), sessions=64),
    Row(name="64 sessions, gRPC, shared thread", figure="steps_per_s", higher_is_better=True,
        floor=8, aim=15, ours=_ours("SharedTiny"), sessions=64),
    Row(name="64 sessions, gRPC, inline", figure="steps_per_s", higher_is_better=True,
        floor=8, aim=15, ours=_ours("InlineTiny"), sessions=64),
    Row(name="64 sessions, /ws JSON, the reference's client", figure="steps_per_s",
        higher_is_better=True, floor=2, aim=3, ours=_ours(door="http", client="reference"),
        sessions=64),
    Row(name="vector client, 64 in lockstep, shared thread", figure="steps_per_s",
        higher_is_better=True, floor=8, aim=25, ours=_ours("SharedTiny", mode="vector"),
        sessions=64),
    Row(name="vector client, 64 in lockstep, arrays", figure="steps_per_s",
        higher_is_better=True, floor=20, aim=40, ours=_ours("SharedArrays", mode="vector"),
        reference=_theirs("Arrays"), sessions=64, action="array"),
    _frame("84x84x4 frame, against a list", "Frame", "List", 25, 100),
    _frame("84x84x4 frame, against base64", "Frame", "Base64", 5, 20),
    _frame("1 MiB frame, against a list", "Megabyte", "List", 100, 200),
    _frame("1 MiB frame, against base64", "Megabyte", "Base64", 15, 20),
    Row(name="memory of an idle session (1,000)", figure="kib_per_session",
        higher_is_better=False, floor=3, aim=5, ours=_ours(), mode="idle", sessions=IDLE),
    Row(name="sessions opened a second", figure="opens_per_s", higher_is_better=True,
        floor=3, aim=4, ours=_ours(), mode="open", sessions=OPENS),
)  # fmt: skip
"""The start of a server is a row of its own, measured without a load."""

START = Row(
    name="server start to READY", figure="start_s", higher_is_better=False,
    floor=10, aim=20, ours=_ours(), mode="start",
)  # fmt: skip
