"""What messages in progress cost the writer of receipts: their rows, beside the receipts of the same.

In alternation, the same number of messages is delivered: without a row, as messages are that end within half
a second; with one row each, written when the message has begun; and with rows that are written once or twice
more, as the message grows. What is timed is what the database is given: rows in one statement, receipts in
batches. The statement that stores receipts removes the rows.

    .venv/bin/python -m benchmarks.open_messages --rounds 9
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import asyncpg

from app.auth.accounts import Accounts
from app.billing.receipts.open_message_delivery import OpenMessageDelivery
from app.billing.receipts.open_messages.in_memory import FIRST_WRITE_S, REWRITE_S
from app.billing.receipts.queue import ReceiptQueue
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.usage.records import UsageFact
from benchmarks.receipts import delivered_queue, facts_of, written

WRITES = (0, 1, 2, 3)


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


async def delivered(
    queue: ReceiptQueue, rows: OpenMessageDelivery, facts: Sequence[UsageFact], *, clock: Seconds, writes: int
) -> float:
    """The seconds of writing rows so many times and of storing receipts."""
    spent = 0.0
    for fact in facts:
        queue.start_message(fact)
    for number in range(writes):
        clock.now += FIRST_WRITE_S if number == 0 else REWRITE_S
        for fact in facts:
            grown = replace(fact.usage, output_tokens=16 * (number + 1))
            queue.update_message(replace(fact, usage=grown))
        began = time.perf_counter()
        await rows.write()
        spent += time.perf_counter() - began
    began = time.perf_counter()
    await written(queue, facts)
    return spent + time.perf_counter() - began


async def main(*, rounds: int, messages: int) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        directory = Path(name)
        async with EmbeddedPostgres.start(directory) as postgres:
            database = await Database.open(postgres.url)
            connection = await asyncpg.connect(postgres.url)
            try:
                await database.migrate()
                key, _ = await Accounts(database).create_key("benchmark", ["receipts:read"])
                gc.freeze()
                took: dict[int, list[float]] = {writes: [] for writes in WRITES}
                async with delivered_queue(database, directory / "journal") as queue:
                    rows, clock = OpenMessageDelivery(database, queue), Seconds()
                    queue.open_messages.now = clock
                    for _ in range(rounds + 1):
                        for writes in WRITES:
                            facts = facts_of(key, messages)
                            seconds = await delivered(queue, rows, facts, clock=clock, writes=writes)
                            took[writes].append(seconds / messages * 1e6)
                left = await connection.fetchval("SELECT count(*) FROM open_messages")
                if left:
                    message = f"{left} rows are left"
                    raise AssertionError(message)
            finally:
                await connection.close()
                await database.aclose()
    print(f"microseconds a message, {rounds} interleaved rounds of {messages:,}, medians")
    print(f"{'':30}{'median':>10}{'ratio':>10}{'range':>14}")
    for writes in WRITES:
        # The first round does not count.
        ratios = [mine / base for mine, base in zip(took[writes][1:], took[0][1:], strict=True)]
        ratio, lowest, highest = statistics.median(ratios), min(ratios), max(ratios)
        median = statistics.median(took[writes][1:])
        name = f"row written {writes} times" if writes else "no row"
        print(f"{name:30}{median:10.0f}{ratio:9.2f}x{lowest:8.2f}-{highest:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="of every way (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=1000, help="in a round (default: %(default)s)")
    asyncio.run(main(**vars(parser.parse_args())))
