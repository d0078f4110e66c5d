"""`examples/agent`: a trainer hands its session to an agent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_trainer_hands_its_session_to_an_agent_and_reads_the_verdict() -> None:
    paths = [os.environ.get("PYTHONPATH", ""), str(ROOT)]
    ended = subprocess.run(
        [sys.executable, "hand_over.py"],
        cwd=ROOT / "examples" / "agent",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "the agent called answer",
        "17 + 4: reward 1.0, over: True",
        "the agent called answer",
        "6 * 7: reward 1.0, over: True",
        "the agent called hint, answer",
        "81 / 9: reward 0.75, over: True",
        "refused: PERMISSION_DENIED",
    ]
