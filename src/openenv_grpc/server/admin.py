"""`AdminService`: for whoever runs the server."""

from __future__ import annotations

from collections.abc import Callable

import grpc

from openenv_grpc.errors import SessionClosedError
from openenv_grpc.server.aborting import Context
from openenv_grpc.server.methods import method
from openenv_grpc.sessions import SessionHost, SessionInfo, SessionState
from openenv_grpc.v1 import admin_pb2
from openenv_grpc.wire.durations import fill_duration, read_duration

SERVICE = "openenv_grpc.v1.AdminService"

_STATES = {
    SessionState.OPENING: admin_pb2.SESSION_STATE_OPENING,
    SessionState.QUEUED: admin_pb2.SESSION_STATE_QUEUED,
    SessionState.READY: admin_pb2.SESSION_STATE_READY,
    SessionState.RUNNING: admin_pb2.SESSION_STATE_RUNNING,
    SessionState.DETACHED: admin_pb2.SESSION_STATE_DETACHED,
    SessionState.CLOSING: admin_pb2.SESSION_STATE_CLOSING,
    SessionState.CLOSED: admin_pb2.SESSION_STATE_CLOSING,
}


class AdminMethods:
    """Lists and ends sessions; drains."""

    def __init__(self, host: SessionHost, drain: Callable[[float | None], int]) -> None:
        self._host = host
        self._drain = drain

    def handlers(self) -> grpc.GenericRpcHandler:
        """Makes the service."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ListSessions": method(admin_pb2.ListSessionsRequest, self.list_sessions),
                "CloseSession": method(admin_pb2.CloseSessionRequest, self.close_session),
                "Drain": method(admin_pb2.DrainRequest, self.drain),
            },
        )

    async def list_sessions(
        self, request: admin_pb2.ListSessionsRequest, context: Context
    ) -> admin_pb2.ListSessionsResponse:
        """Lists the sessions, oldest first."""
        sessions = [_info(session) for session in self._host.sessions()]
        return admin_pb2.ListSessionsResponse(sessions=sessions)

    async def close_session(
        self, request: admin_pb2.CloseSessionRequest, context: Context
    ) -> admin_pb2.CloseSessionResponse:
        """Ends a session."""
        error = SessionClosedError("the session was closed by an operator", session_lost=True)
        self._host.end_session(request.session_id, error)
        return admin_pb2.CloseSessionResponse()

    async def drain(
        self, request: admin_pb2.DrainRequest, context: Context
    ) -> admin_pb2.DrainResponse:
        """Starts to drain."""
        limit_s = None
        if request.HasField("limit_timeout"):
            limit_s = read_duration(request.limit_timeout, what="limit_timeout", least_s=0)
        return admin_pb2.DrainResponse(session_count=self._drain(limit_s))


def _info(session: SessionInfo) -> admin_pb2.SessionInfo:
    message = admin_pb2.SessionInfo(
        session_id=session.session_id,
        environment=session.environment,
        state=_STATES[session.state],
        step_count=session.step_count,
        peer=session.peer,
        under_way=session.under_way,
    )
    fill_duration(message.age_time, session.age_s)
    if session.idle_s is not None:
        fill_duration(message.idle_time, session.idle_s)
    return message
