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
        "an event that breaks off after its id is lost",
        "app/http/native/encoder.py",
        'return f"event: {event.type}\\ndata: {data}\\nid: {position}\\n\\n"',
        'return f"id: {position}\\nevent: {event.type}\\ndata: {data}\\n\\n"',
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
        "                self._has_unread.set()\n",
        "                self._has_unread.set()\n                await self.stop_unread()\n",
        UNREAD,
    ),
)
