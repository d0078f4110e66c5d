"""`AdminService`: for whoever runs the server."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf import duration_pb2

from openenv_grpc.errors import OpenEnvError, SessionClosedError
from openenv_grpc.server.aborting import Context, abort
from openenv_grpc.sessions import SessionHost, SessionInfo, SessionState
from openenv_grpc.v1 import admin_pb2, admin_pb2_grpc

_STATES = {
    SessionState.OPENING: admin_pb2.SESSION_STATE_OPENING,
    SessionState.READY: admin_pb2.SESSION_STATE_READY,
    SessionState.RUNNING: admin_pb2.SESSION_STATE_RUNNING,
    SessionState.CLOSING: admin_pb2.SESSION_STATE_CLOSING,
    SessionState.CLOSED: admin_pb2.SESSION_STATE_CLOSING,
}


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """Lists and ends sessions; drains."""

    def __init__(self, host: SessionHost, drain: Callable[[float | None], int]) -> None:
        self._host = host
        self._drain = drain

    async def ListSessions(  # noqa: N802  # the name is the proto's
        self, request: admin_pb2.ListSessionsRequest, context: Context
    ) -> admin_pb2.ListSessionsResponse:
        """Lists the sessions, oldest first."""
        sessions = [_info(session) for session in self._host.sessions()]
        return admin_pb2.ListSessionsResponse(sessions=sessions)

    async def CloseSession(  # noqa: N802  # the name is the proto's
        self, request: admin_pb2.CloseSessionRequest, context: Context
    ) -> admin_pb2.CloseSessionResponse:
        """Ends a session."""
        error = SessionClosedError("the session was closed by an operator", session_lost=True)
        try:
            self._host.end_session(request.session_id, error)
        except OpenEnvError as failure:
            await abort(context, failure)
        return admin_pb2.CloseSessionResponse()

    async def Drain(  # noqa: N802  # the name is the proto's
        self, request: admin_pb2.DrainRequest, context: Context
    ) -> admin_pb2.DrainResponse:
        """Starts to drain."""
        limit_s = None
        if request.HasField("limit_timeout"):
            limit_s = request.limit_timeout.ToNanoseconds() / 1e9
        return admin_pb2.DrainResponse(session_count=self._drain(limit_s))


def _info(session: SessionInfo) -> admin_pb2.SessionInfo:
    message = admin_pb2.SessionInfo(
        session_id=session.session_id,
        environment=session.environment,
        state=_STATES[session.state],
        step_count=session.step_count,
        peer=session.peer,
    )
    _set_duration(message.age_time, session.age_s)
    if session.idle_s is not None:
        _set_duration(message.idle_time, session.idle_s)
    return message


def _set_duration(message: duration_pb2.Duration, seconds: float) -> None:
    message.FromNanoseconds(round(seconds * 1e9))
    message.SetInParent()
