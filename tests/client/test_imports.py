from __future__ import annotations

import subprocess
import sys


def test_importing_the_client_loads_no_web_library() -> None:
    script = (
        "import sys, openenv_grpc.client\n"
        "print([name for name in ('aiohttp', 'mcp', 'numpy', 'uvloop') if name in sys.modules])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "[]\n"
