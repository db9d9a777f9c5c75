"""What following the stream costs: bytes of the journal, and time for each delta of a streamed message.

One message of so many deltas is folded as in the gateway, without recording its growth and with it, in
alternation. Then one record is encoded once and twice.

    .venv/bin/python -m benchmarks.journal --rounds 20
"""

import argparse
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from app.billing.receipts.journal import Journal
from app.billing.receipts.journal_records import STARTED, encode, encode_fact
from app.gateway.answer_usage import MessageUsage, StreamFold
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.simulator import wire
from app.simulator.script import Reply, Text
from app.usage.records import Attribution, UsageFact

DELTAS = 2000
ENCODED = 20_000
_KEY = ApiKeyId(new_uuid())


def a_stream() -> list[bytes]:
    """The events of a message."""
    reply = Reply([Text("word " * DELTAS)])
    return [wire.sse(event) for event in wire.events(reply, model="claude-sonnet-5-5")]


def a_fact(message: MessageUsage, run: RunKey) -> UsageFact:
    """The fact of a message."""
    return UsageFact(
        run=run,
        attempt=0,
        message_id=message.message_id,
        attribution=Attribution(_KEY, "claude_agents:assistant", None),
        model=message.model,
        usage=message.usage,
        executor_type="claude_sdk",
        at=message.at,
    )


def followed(directory: Path, events: list[bytes], *, records: bool) -> tuple[float, int]:
    """Fold a stream; returns its seconds and the bytes of its journal."""
    journal = Journal(directory, new_uuid(), segment_bytes=2**30)
    run = RunKey(AccountId(new_uuid()), RunId(f"run-{new_uuid()}"))
    fold = StreamFold()
    began = time.perf_counter()
    for event in events:
        news = fold.feed(event)
        grown = fold.grown() if records else None
        message = fold.message if news else grown
        if message is None:
            continue
        fact = a_fact(message, run)
        if message.complete:
            journal.complete_message(fact)
        elif news:
            journal.start_message(fact)
        else:
            journal.update_message(fact)
    seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in directory.glob("*.journal"))
    journal.acknowledge([fact.key])
    journal.close()
    return seconds, size


def per_call_us(work: Callable[[], object]) -> float:
    """Microseconds of one call."""
    began = time.perf_counter()
    for _ in range(ENCODED):
        work()
    return (time.perf_counter() - began) / ENCODED * 1e6


def main(rounds: int) -> None:
    """Run and print."""
    events = a_stream()
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        pairs = [
            (followed(Path(name), events, records=False), followed(Path(name), events, records=True))
            for _ in range(rounds + 1)
        ][1:]
    without, with_ = (statistics.median(pair[which][0] for pair in pairs) for which in (0, 1))
    start_and_end, all_ = pairs[0][0][1], pairs[0][1][1]
    print(f"a message of {DELTAS:,} deltas, {rounds} rounds in alternation, medians")
    print(f"{'':34}{'start and end':>16}{'every 16 tokens':>18}")
    print(f"{'bytes of the journal':34}{start_and_end:16,}{all_:18,}")
    print(f"{'microseconds a delta':34}{without / DELTAS * 1e6:16.2f}{with_ / DELTAS * 1e6:18.2f}")
    print(f"{'bytes a token besides':34}{'':16}{(all_ - start_and_end) / DELTAS:18.1f}")
    fold = StreamFold()
    fold.feed(events[0])
    if fold.message is None:
        raise AssertionError(events[0])
    fact = a_fact(fold.message, RunKey(AccountId(new_uuid()), RunId("run-1")))
    payload = encode_fact(fact)
    once = per_call_us(lambda: b"%08x 1 O %s\n" % (zlib.crc32(b"1 O " + payload), payload))
    twice = per_call_us(lambda: encode(1, STARTED, payload))
    json_us = per_call_us(lambda: encode_fact(fact))
    print(f"\na record of {len(payload)} bytes: {json_us:.1f} us for its JSON, {once:.2f} us as one line,")
    print(f"{twice:.2f} us as two")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="of both ways (default: %(default)s)")
    main(**vars(parser.parse_args()))
