"""A process that puts loads on servers, one after the other, with one kind of client.

`python -m bench.load KIND` reads jobs from standard input and answers each with the figures, all as
lines of JSON. It also runs where only the reference is installed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import traceback

from bench.clients import CLIENTS
from bench.jobs import Job
from bench.modes import MODES


def main() -> None:
    client_type, loop_factory = CLIENTS[sys.argv[1]]()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        for line in sys.stdin:
            job = Job(**json.loads(line))
            answer: dict[str, object]
            try:
                answer = {"measured": runner.run(MODES[job.mode](job, client_type))}
            except Exception:  # whatever a client raises is told, and the next job is another's
                answer = {"failed": traceback.format_exc(limit=-3)}
            print(json.dumps(answer), flush=True)
            gc.collect()


if __name__ == "__main__":
    main()
