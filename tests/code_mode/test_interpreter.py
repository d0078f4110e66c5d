"""Code in a process of its own: what it can do, what it cannot, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openenv_grpc.code_mode import CodeLimits, CodeOutcome, run_code
from openenv_grpc.errors import InvalidArgumentsError
from tests.engine.process_environments import gone_by_then

LIMITS = CodeLimits(timeout_s=60)


def run(code: str, **functions: Callable[..., Any]) -> CodeOutcome:
    return run_code(code, functions, LIMITS)


def test_the_variable_result_is_the_result() -> None:
    assert run("result = {'a': [1, 2.5, None]}") == CodeOutcome(result={"a": [1, 2.5, None]})
    assert run("x = 1") == CodeOutcome()


def test_functions_of_the_code_can_call_each_other() -> None:
    code = "def one(): return two()\ndef two(): return 2\nresult = [one() for _ in range(2)]"
    assert run(code).result == [2, 2]


def test_what_json_does_not_have_comes_as_text() -> None:
    assert run("result = {1}").result == "{1}"
    assert run("result = [object]").result == ["<class 'object'>"]
    assert run("result = []\nresult.append(result)").result == "[[...]]"


def test_what_is_printed_is_kept_of_subprocesses_too() -> None:
    code = "import subprocess\nprint('one', flush=True)\nsubprocess.run(['echo', 'two'])\nprint(3)"
    assert run(code).stdout == "one\ntwo\n3\n"
    assert len(run("print('x' * 1_000_000)").stdout) == 64 * 2**10


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def f():\n  return 1 / 0\nf()",
         "ZeroDivisionError: division by zero, line 2, called at line 3"),
        ("def (", "Syntax error: invalid syntax, line 1"),
        ("raise SystemExit(3)", "SystemExit: 3, line 1"),
        ("import os\nos._exit(4)", "the code ended its process, with exit code 4"),
        ("import os\nos.kill(os.getpid(), 9)", "the code ended its process, by signal 9"),
        ("x = ' ' * 2**31", "MemoryError, line 1"),
        ("raise KeyError", "KeyError, line 1"),
    ],
    ids=["exception", "syntax", "exit", "at once", "signal", "memory", "no text"],
)  # fmt: skip
def test_what_fails_says_why_and_where(code: str, error: str) -> None:
    outcome = run(code)
    assert (outcome.error, outcome.result) == (error, None)


def test_functions_are_called_on_the_callers_thread() -> None:
    seen: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = []

    def look(*args: Any, **kwargs: Any) -> dict[str, Any]:
        seen.append((threading.get_ident(), args, kwargs))
        return {"seen": len(seen)}

    outcome = run("result = [look(1, [2]), look(x={'a': None})]", look=look)
    assert outcome.result == [{"seen": 1}, {"seen": 2}]
    here = threading.get_ident()
    assert seen == [(here, (1, [2]), {}), (here, (), {"x": {"a": None}})]


def test_threads_of_the_code_take_turns() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as threads:
    result = list(threads.map(double, range(20)))
"""
    assert run(code, double=lambda number: 2 * number).result == [2 * n for n in range(20)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InvalidArgumentsError("a: wrong"), "a: wrong"),
        (ValueError("oh no"), "oh no"),
        (KeyError(), "KeyError"),
    ],
)
def test_what_a_function_raises_can_be_caught_by_the_code(error: Exception, told: str) -> None:
    def fail() -> None:
        raise error

    code = "try:\n  fail()\nexcept RuntimeError as error:\n  result = str(error)"
    assert run(code, fail=fail).result == told
    assert run("fail()", fail=fail).error == f"RuntimeError: {told}, line 1"


def test_what_cannot_be_sent_can_be_caught_by_the_code() -> None:
    code = "try:\n  take({1})\nexcept TypeError:\n  result = take(2)"
    assert run(code, take=lambda value: value).result == 2
    assert "serialize" in (run("give()", give=object).error or "")


def test_time_is_limited_and_what_was_printed_is_kept() -> None:
    code = "print('on it', flush=True)\nwhile True: pass"
    outcome = run_code(code, {}, CodeLimits(timeout_s=1))
    assert outcome.error == "the code did not end within 1 seconds"
    assert outcome.stdout in ("on it\n", "")  # a loaded machine may not have come that far


def test_the_environment_of_the_server_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    code = "import os, sys\nresult = [sorted(os.environ), 'openenv_grpc' in sys.modules]"
    assert run(code).result == [["HOME", "LANG", "PATH", "TMPDIR"], False]


def test_its_folder_is_empty_and_removed() -> None:
    code = "import os\nopen('left', 'w').close()\nresult = [os.getcwd(), os.listdir()]"
    folder, files = run(code).result
    assert files == ["left"]
    assert not Path(folder).exists()


def test_what_it_started_ends_with_it() -> None:
    code = "import subprocess\nresult = subprocess.Popen(['sleep', '1000']).pid"
    started = run(code).result
    assert gone_by_then(started)


def test_it_ends_with_the_server_even_if_that_is_killed(tmp_path: Path) -> None:
    written = tmp_path / "pid"
    code = f"import os, time\nopen({str(written)!r} + '.new', 'w').write(str(os.getpid()))\n"
    code += f"os.rename({str(written)!r} + '.new', {str(written)!r})\ntime.sleep(1000)"
    server = (
        "import sys; from openenv_grpc.code_mode import CodeLimits, run_code; "
        "run_code(sys.argv[1], {}, CodeLimits(timeout_s=900))"
    )
    with subprocess.Popen([sys.executable, "-c", server, code]) as process:
        ends_at = time.monotonic() + 60
        while not written.exists():
            assert time.monotonic() < ends_at
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert gone_by_then(int(written.read_text()))


def test_no_descriptor_is_left_open() -> None:
    run("result = 1")
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    run("result = 1")
    run_code("while True: pass", {}, CodeLimits(timeout_s=0.1))
    after = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    assert after == before


@pytest.mark.parametrize(
    "message",
    [
        "b'\\xff\\xff\\xff\\xff'",
        "b'\\x02\\x00\\x00\\x00[]'",
        "b'\\x02\\x00\\x00\\x00{}'",
        "b'\\x03\\x00\\x00\\x00abc'",
    ],
    ids=["too large", "no object", "nothing asked", "no json"],
)
def test_code_that_speaks_to_the_server_by_itself_harms_itself_alone(message: str) -> None:
    code = f"""
import gc, socket
for each in gc.get_objects():
    if isinstance(each, socket.socket):
        each.sendall({message})
import time
time.sleep(1000)
"""
    outcome = run(code)
    assert outcome.error == "the code ended its process, by signal 9"
