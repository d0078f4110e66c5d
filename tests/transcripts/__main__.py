"""`python -m tests.transcripts URL`: replays all conversations against a server of echo_env."""

from __future__ import annotations

import asyncio
import sys

from tests.transcripts.replay import Mismatch, Replay, streams_to
from tests.transcripts.transcripts import FOLDER, Act, read


async def main(url: str) -> int:
    """Prints a line for each conversation; returns the number of those that failed."""
    failed = 0
    async with streams_to(url) as open_stream:
        for path in sorted(FOLDER.glob("*.txt")):
            if any(block.act is Act.DRAIN for block in read(path)):
                print(f"not run  {path.stem}: it would drain the server")
                continue

            async def nothing() -> None:
                return None

            try:
                await Replay(path, open_stream, nothing).run()
            except Mismatch as mismatch:
                failed += 1
                print(f"FAILED   {path.stem}\n{mismatch}")
            else:
                print(f"passed   {path.stem}")
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 2 or "://" not in sys.argv[1]:
        sys.exit("usage: python -m tests.transcripts grpc://HOST:PORT|http://HOST:PORT")
    sys.exit(1 if asyncio.run(main(sys.argv[1])) else 0)
