"""A worker process's end of the line to its server."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from openenv_grpc.engine.process.frames import (
    Frame,
    FrameKind,
    FrameReader,
    read_answer,
    write_change,
    write_frame,
    write_notice,
    write_questions,
)
from openenv_grpc.events import carried
from openenv_grpc.tools import Change, ToolNotice, ToolQuestion
from openenv_grpc.types import JsonValue

_CHUNK_BYTES = 2**18


class Line:
    """Receives frames one by one, on one thread at a time, and sends them from any."""

    def __init__(self, connection: socket.socket, file: int) -> None:
        self._socket = connection
        self._file = file
        self._reader = FrameReader(file)
        self._arrived: deque[Frame] = deque()
        self.session_id = ""
        """Of whom the process is; empty before it is anybody's."""
        self._sending = threading.Lock()  # a frame goes out whole before the next
        self._receiving = threading.Lock()  # who has it reads, and leaves what is not for him

    def receive(self) -> Frame | None:
        """Waits for a frame; `None` once the server is gone."""
        with self._receiving:
            return self._arrived.popleft() if self._waited() else None

    def receive_answer(self) -> Frame | None:
        """Waits for a frame; `None` if that is no answer, which others get then."""
        with self._receiving:
            is_answer = self._waited() and self._arrived[0].kind == FrameKind.ANSWER
            return self._arrived.popleft() if is_answer else None

    def _waited(self) -> bool:
        while not self._arrived:
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                return False
            self._arrived.extend(self._reader.feed(chunk))
        return True

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

    def tell_change(self, change: Change) -> None:
        """Sends what changed."""
        self._line.send(FrameKind.CHANGED, number=self._number, facts=write_change(change))


class LineClient:
    """Has the server ask the client of a tool's caller. Implements `Client`.

    The main thread reads the line between operations alone, so that another does while a tool of
    a blocking one waits.
    """

    def __init__(self, line: Line, number: int, offers: frozenset[str]) -> None:
        self.offers = offers
        """The capabilities that the client has declared."""
        self._line = line
        self._number = number
        self._open: dict[str, ToolQuestion] = {}
        self._reads = False
        self._lock = threading.Lock()  # guards both

    def ask(self, questions: Sequence[ToolQuestion]) -> None:
        """Sends questions."""
        with self._lock:
            self._open.update({question.key: question for question in questions})
            starts, self._reads = not self._reads, True
        for question in questions:
            question.answered.add_done_callback(partial(self._close, question.key))
        facts = write_questions(questions)
        self._line.send(FrameKind.ASKED, number=self._number, facts=facts)
        if starts:
            threading.Thread(target=self._read, name="openenv answers", daemon=True).start()

    def answer(self, frame: Frame) -> None:
        """Takes an answer. Of one that nobody waits for any more nothing comes."""
        key, result, error = read_answer(frame.content)
        question = self._open.get(key) if frame.number == self._number else None
        if question is None:
            return
        if error is None:
            question.answer(result)
        else:
            question.fail(error)

    def hang_up(self, told: str) -> None:
        """Fails what is not answered. What is asked from now on the server fails."""
        with self._lock:
            questions = [*self._open.values()]
        for question in questions:
            question.fail(told)

    def _close(self, key: str, _: Future[JsonValue]) -> None:
        with self._lock:
            self._open.pop(key, None)

    def _read(self) -> None:
        while self._goes_on():
            frame = self._line.receive_answer()
            if frame is None:  # the operation is over
                return
            self.answer(frame)

    def _goes_on(self) -> bool:
        with self._lock:
            self._reads = bool(self._open)
            return self._reads


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
