"""A worker process's end of the line to its server."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections import deque

from openenv_grpc.engine.process.frames import (
    Frame,
    FrameKind,
    FrameReader,
    write_frame,
    write_notice,
)
from openenv_grpc.events import carried
from openenv_grpc.tools import ToolNotice

_CHUNK_BYTES = 2**18


class Line:
    """Receives frames one by one, on one thread, and sends them from any."""

    def __init__(self, connection: socket.socket, file: int) -> None:
        self._socket = connection
        self._file = file
        self._reader = FrameReader(file)
        self._arrived: deque[Frame] = deque()
        self.session_id = ""
        """Of whom the process is; empty before it is anybody's."""
        self._sending = threading.Lock()  # a frame goes out whole before the next

    def receive(self) -> Frame | None:
        """Waits for a frame; `None` once the server is gone."""
        while not self._arrived:
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                return None
            self._arrived.extend(self._reader.feed(chunk))
        return self._arrived.popleft()

    def send(
        self, kind: FrameKind, *, number: int = 0, facts: bytes = b"", content: bytes = b""
    ) -> None:
        """Sends a frame."""
        with self._sending:
            self._socket.sendall(
                write_frame(self._file, kind, number=number, facts=facts, content=content)
            )


class LineListener:
    """Has the server hear what a tool tells. Implements `Listener`."""

    def __init__(self, line: Line, number: int) -> None:
        self._line = line
        self._number = number

    def tell(self, notice: ToolNotice) -> None:
        """Sends a notice."""
        self._line.send(FrameKind.NOTICE, number=self._number, facts=write_notice(notice))


class LogSender(logging.Handler):
    """Has the server log what is logged in the worker."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self._pid = os.getpid()
        self._elsewhere = logging.StreamHandler()
        self._format = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Sends a record, with the text of its traceback."""
        if record.process != self._pid:  # a process that the environment forked has no line
            self._elsewhere.handle(record)
            return
        try:
            trace = record.exc_text
            if record.exc_info and not trace:
                trace = self._format.formatException(record.exc_info)
            fields = {
                "name": record.name,
                "levelno": record.levelno,
                "levelname": record.levelname,
                "msg": record.getMessage(),
                "created": record.created,
                "process": record.process,
                "threadName": record.threadName,
                "exc_text": trace,
                **carried(record, self._line.session_id),
            }
            self._line.send(FrameKind.LOG, facts=json.dumps(fields).encode())
        except Exception:  # as handlers do: whoever logs is not to be bothered
            self.handleError(record)
