"""Faults planted in what clients of the foreign wires get, and in which runs end when these have left."""

from tests.mutants.mutant import Mutant

RELEASES = ("tests/clients/test_ag_ui_releases.py",)
UNREAD = ("tests/integration/test_unread_runs.py",)
LOST = ("tests/integration/test_readers_on_lost_servers.py",)
STREAMS = ("tests/integration/test_http_streams.py",)
NATIVE = ("tests/unit/http/native/test_encoder.py",)

_DIALECT = "app/http/ag_ui/releases/dialect.py"
_READERS = "app/runs/readers/service.py"

WIRES = (
    Mutant(
        "clients that do not name their release get all of AG-UI 1.0",
        _DIALECT,
        "    return UNKNOWN\n",
        "    return CURRENT\n",
        RELEASES,
    ),
    Mutant(
        "the oldest clients read reasoning, which they reject",
        _DIALECT,
        'field = "data:" if self',
        'field = "data: " if self',
        RELEASES,
    ),
    Mutant(
        "a client that knows no subagents gets their messages as answers",
        _DIALECT,
        "(isinstance(event, _SUBAGENT) or _has_subagent(event))",
        "isinstance(event, _SUBAGENT)",
        RELEASES,
    ),
    Mutant(
        "an early reader of a stream gets an event without data",
        "app/http/streaming/encoder.py",
        'RETRY_LINE = b"retry: 2000\\n"',
        'RETRY_LINE = b"retry: 2000\\n\\n"',
        NATIVE,
    ),
    Mutant(
        "a new run is streamed after an event of another one",
        "app/http/api/runs/routes.py",
        "(last_event_id or 0) if is_repeatable else 0",
        "last_event_id or 0",
        STREAMS,
    ),
    Mutant(
        "an EventSource reconnects for ever",
        "app/runs/events/reader.py",
        "if last is None or position < last:",
        "if last is None or position <= last:",
        STREAMS,
    ),
    Mutant(
        "a decision about an attempt that is over is refused",
        "app/runs/chats.py",
        "if not was_requested and (await self.runs.get(run)).attempt == 0:",
        "if not was_requested:",
        ("tests/e2e/test_a_decision_outlives_its_server.py",),
    ),
    Mutant(
        "an EventSource gets the end of a run without events for ever",
        "app/runs/events/reader.py",
        "if not run.finished or position >= LAST_POSITION:",
        "if not run.finished:",
        ("tests/integration/test_events_retention.py",),
    ),
    Mutant(
        "an answer that a stopping server cuts short looks complete",
        "app/http/streaming/sse.py",
        "self._encoder.encode_stopping()",
        'b""',
        STREAMS,
    ),
    Mutant(
        "a person who stops an answer and goes on waits for it",
        _READERS,
        "        self._end(each for each in left if each not in self._reading)\n",
        "",
        UNREAD,
    ),
    Mutant(
        "a person who goes on stops an answer that another device reads",
        "app/runs/readers/repository.py",
        "HAVING bool_and(seen_at = 'epoch' OR run_readers.process_id = :process_id)",
        "HAVING bool_or(seen_at = 'epoch' OR run_readers.process_id = :process_id)",
        UNREAD,
    ),
    Mutant(
        "a reader that leaves at once is none",
        _READERS,
        "with anyio.CancelScope(shield=True):",
        "with anyio.CancelScope():",
        UNREAD,
    ),
    Mutant(
        "one wrong value of an earlier message ends a chat",
        "app/http/ai_sdk/ui_message.py",
        "loc[0] < len(messages) - 1",
        "loc[0] < 0",
        ("tests/unit/http/ai_sdk/test_ui_message.py",),
    ),
    Mutant(
        "the new message is read as leniently as earlier ones",
        "app/http/ai_sdk/ui_message.py",
        "loc[0] < len(messages) - 1",
        "loc[0] < len(messages)",
        ("tests/unit/http/ai_sdk/test_ui_message.py",),
    ),
    Mutant(
        "any number of tools is read on the event loop",
        "app/requests/client_tools.py",
        "for each in islice(described, MOST_DESCRIBED):",
        "for each in islice(described, None):",
        ("tests/unit/requests/test_client_tools.py",),
    ),
    Mutant(
        "an outage of the database is taken for a reader that left",
        _READERS,
        "            self._watched = dict.fromkeys(self._watched)\n",
        "",
        UNREAD,
    ),
    Mutant(
        "a complete response is taken for a disconnect",
        _READERS,
        "        await self._depart(run)\n",
        "",
        UNREAD,
    ),
    Mutant(
        "a reader is never renewed",
        _READERS,
        "                if reading:\n",
        "                if not reading:\n",
        UNREAD,
    ),
    Mutant(
        "only the process of a reader watches its run",
        _READERS,
        "        for run in self._executed():\n",
        "        for run in ():\n",
        UNREAD,
    ),
    Mutant(
        "a queued run waits for its turn although the server of its reader is lost",
        _READERS,
        "            for run in await queued_runs_with_readers(tx):\n",
        "            for run in ():\n",
        LOST,
    ),
    Mutant(
        "rows of killed servers stay after their runs",
        _READERS,
        "            await forget_readers_of_ended_runs(tx)\n",
        "",
        LOST,
    ),
    Mutant(
        "readers are not renewed while a process does not answer a cancellation",
        _READERS,
        "self._end([run for run, readers in found.items() if self._is_unread(run, readers)])\n",
        "self._end([run for run, readers in found.items() if self._is_unread(run, readers)])\n"
        "        await self.stop_unread()\n",
        UNREAD,
    ),
)
