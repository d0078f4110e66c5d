from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from openenv_grpc.group_process import GroupProcess
from tests.engine.process_environments import gone_by_then

STARTS_ANOTHER = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(other.pid, file=open(sys.argv[1], "w"))
sys.exit(len(sys.stdin.read()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_it_leaves_behind_in_its_group_ends_with_it(tmp_path: Path) -> None:
    process = GroupProcess()
    process.start(["-c", STARTS_ANOTHER, str(tmp_path / "pid")], pass_fds=(), content=b"12345")

    assert process.wait() == 5
    other = int((tmp_path / "pid").read_text())
    assert gone_by_then(other)


def test_one_that_was_killed_before_it_was_started_ends_at_once() -> None:
    process = GroupProcess()
    process.kill()
    process.start(["-c", "import signal; signal.pause()"], pass_fds=())

    assert process.wait() == -signal.SIGKILL


def test_nothing_is_signalled_once_it_has_ended() -> None:
    process = GroupProcess()
    process.start(["-c", ""], pass_fds=(), content=b"not read")

    assert process.wait() == 0
    process.interrupt()
    process.kill()
