"""Faults planted in how a process stops."""

from tests.mutants.mutant import Mutant

HANDOVER = ("tests/integration/test_run_handover.py",)
CLOSING = ("tests/unit/http/streaming/test_closing.py",)
QUEUE = ("tests/integration/test_run_dispatcher.py",)

_HANDOVER = "app/runs/recovery/handover.py"
_REPOSITORY = "app/runs/recovery/repository.py"

STOPPING = (
    Mutant(
        "a process that stops keeps the attempt",
        _REPOSITORY,
        ".values(attempt=run.attempt + 1)",
        ".values(attempt=run.attempt)",
        HANDOVER,
    ),
    Mutant(
        "an attempt that is handed over is not fenced",
        _REPOSITORY,
        "    await record_takeovers(tx, given, handed_over=True)\n",
        "",
        HANDOVER,
    ),
    Mutant(
        "an attempt that is handed over counts as a crash",
        _REPOSITORY,
        "await record_takeovers(tx, given, handed_over=True)",
        "await record_takeovers(tx, given)",
        HANDOVER,
    ),
    Mutant(
        "crashes that were handed over count",
        _REPOSITORY,
        "        ~run_takeovers.c.handed_over,\n",
        "",
        ("tests/integration/test_run_recovery.py",),
    ),
    Mutant(
        "the last events of a run that is handed over are dropped",
        "app/streams/relayed.py",
        "            if not written.buffer.after(written.relayed, 1):\n                break\n",
        "            break\n",
        ("tests/contracts/test_relayed_event_log.py",),
    ),
    Mutant(
        "an answer may be published while its run is handed over",
        _HANDOVER,
        "if await stack.enter_async_context(paused) and not run.control.has_ended:",
        "if paused and not run.control.has_ended:",
        HANDOVER,
    ),
    Mutant(
        "messages are not handed over",
        _HANDOVER,
        "return [(run, pending_commands(run)) for run in active]",
        "return [(run, []) for run in active]",
        HANDOVER,
    ),
    Mutant(
        "messages that have taken effect are handed over as well",
        "app/executors/inbox.py",
        "return list(self._pending.values())",
        "return [next(iter(self._pending.values()))] * len(self._positions)",
        HANDOVER,
    ),
    Mutant(
        "runs that may not be resumed are handed over",
        _HANDOVER,
        "given = [run for run in running if await may_be_resumed(tx, run, self.graphs)]",
        "given = running",
        HANDOVER,
    ),
    Mutant(
        "a claimed run starts although its process stops",
        "app/runs/starting.py",
        "if self.places.is_closed:",
        "if False:",
        HANDOVER,
    ),
    Mutant(
        "the others do not learn that a process stops",
        "app/runs/recovery/draining.py",
        "            await self._announce()\n",
        "",
        HANDOVER,
    ),
    Mutant(
        "what a process that stops still executes uses up the places of others",
        "migrations/versions/2026-11-23-1040_hand_runs_over.py",
        "CASE WHEN draining THEN taken ELSE places END",
        "CASE WHEN draining THEN 0 ELSE places END",
        QUEUE,
    ),
    Mutant(
        "the result of an attempt that was handed over is that of the run",
        "app/runs/worker.py",
        "return finished.final if isinstance(stored, datetime) else None",
        "return finished.final",
        HANDOVER,
    ),
    Mutant(
        "streams that never pause are never closed",
        "app/http/streaming/closing.py",
        " or now - began > _AT_MOST_S",
        "",
        CLOSING,
    ),
    Mutant(
        "streams are closed before they have sent what there is",
        "app/http/streaming/closing.py",
        "now - max(stream.sent_at, began) > _QUIET_S",
        "now - began > _QUIET_S",
        CLOSING,
    ),
    Mutant(
        "all clients reconnect at once",
        "app/http/streaming/stopping.py",
        "random.randint(*_RETRY_MS)",
        "_RETRY_MS[0]",
        CLOSING,
    ),
)
