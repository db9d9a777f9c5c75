"""How long `runtally serve` takes until `/readyz` says so, with a data directory that it has made before.

.venv/bin/python -m benchmarks.starts
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.scripted_model import scripted_model
from benchmarks.servers import running_server

_IDLE = 2
"""CLI processes that it keeps."""


async def measure(directory: Path, rounds: int) -> list[float]:
    """The seconds of each start but the first."""
    found = []
    async with scripted_model() as model:
        for _ in range(1 + rounds):
            begun = time.perf_counter()
            async with running_server(model.url, directory, idle=_IDLE):
                found.append(time.perf_counter() - begun)
    return found[1:]


async def main(rounds: int) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        found = await measure(Path(name), rounds)
    print(f"ready after {statistics.median(found):.2f} s ({min(found):.2f} to {max(found):.2f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    asyncio.run(main(parser.parse_args().rounds))
