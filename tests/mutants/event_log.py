"""Faults of the event logs."""

from tests.mutants.mutant import Mutant

RELAYED = ("tests/contracts/test_relayed_event_log.py", "tests/contracts/test_relay_outages.py")
"""Fast tests that need Valkey."""

EVENT_LOG = (
    Mutant(
        "a reader gets entries twice",
        "app/streams/run_buffer.py",
        "position = batch[-1].position",
        "position = batch[0].position",
    ),
    Mutant(
        "an earlier attempt writes to the relay after a later one",
        "app/streams/relay/scripts.py",
        "local fenced = last_attempt > attempt or",
        "local fenced = false and",
        RELAYED,
    ),
    Mutant(
        "what the relay has lost is not sent again",
        "app/streams/relay/flusher.py",
        "written.relayed = refusal.last",
        "written.relayed = max(written.relayed, refusal.last)",
        RELAYED,
    ),
    Mutant(
        "readers elsewhere do not notice a gap",
        "app/streams/relay/run_feed.py",
        "if batch.first != self._last + 1:",
        "if False:",
        RELAYED,
    ),
    Mutant(
        "a silent process is taken for dead while nothing arrives here",
        "app/streams/process_channel.py",
        "raise TimeoutError if echoed.done() else EventLogUnavailable",
        "raise TimeoutError",
        ("tests/contracts/test_process_channel.py",),
    ),
)
