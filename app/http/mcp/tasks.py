"""RunTasks: runs as tasks, for clients that come back for an answer instead of waiting for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from starlette.datastructures import Headers

from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.dependencies import run_key
from app.http.field_errors import rename_fields
from app.http.mcp.calls import answer_task
from app.http.mcp.client import TASKS, McpClient
from app.http.mcp.forms import FORMS
from app.http.mcp.input import parsed
from app.http.mcp.results import Answering, CallAnswer
from app.http.mcp.tools import result_json, stamped
from app.http.response_model import utc_text
from app.http.streaming.pausing import waiting_calls
from app.ids import RunId
from app.platform.pagination import MAX_PAGE, PageRequest
from app.requests.attribution import LabelFilter
from app.requests.outcome import RunStatus
from app.requests.principal import Principal
from app.runs.commands.service import WITHIN_S, RunNotFound
from app.runs.deletion.service import with_contents
from app.runs.events.failures import failure_of
from app.runs.events.terminal import stored_end
from app.runs.records import RunFilter, RunRecord
from app.runs.waits.listing.records import CallFilter

_SHORTEST_POLL_MS: Final = 500
_LONGEST_POLL_MS: Final = 5_000
_PAGE: Final = 50
_STATUSES: Final[Mapping[RunStatus, types.TaskStatus]] = {
    "queued": "working",
    "running": "working",
    "waiting": "working",
    "succeeded": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


class _Update(types.GetTaskRequestParams):
    """The parameters of a request that answers what a task asks."""

    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunTasks:
    """The tasks of one caller: the runs that its key has started. The id of a task is that of its run."""

    services: Services
    caller: Principal
    client: McpClient

    def check(self, headers: Headers, params: Mapping[str, Any]) -> None:
        """Raise `MCPError` for a request that the client's revision does not allow."""
        if not self.client.is_modern:
            return
        if not self.client.has_tasks:
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            problem = "The client has not announced the extension that this method belongs to."
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, problem, data)
        if decode_header_value(headers.get(MCP_NAME_HEADER)) != params.get("taskId"):
            raise MCPError(types.HEADER_MISMATCH, f"{MCP_NAME_HEADER}: must be params.taskId")

    async def find(self, params: Mapping[str, Any]) -> RunRecord:
        """The run of a request's task; raises `Invalid`, `RunNotFound`, `RunDeleted`."""
        run_id = parsed(types.GetTaskRequestParams, params, "params.").task_id
        record = await self.services.runs.get(run_key(self.caller, run_id))
        if not self.has(record):
            raise RunNotFound
        return with_contents(record)

    def has(self, record: RunRecord) -> bool:
        """Whether a run is a task of this caller."""
        is_own = record.api_key_id == self.caller.api_key_id
        is_of_tool = self.services.graphs.find(record.graph_id) is not None
        return is_own and is_of_tool and self.caller.end_user in (None, record.labels.end_user)

    def created(self, answer: CallAnswer) -> dict[str, Any]:
        """The result of a call that has become a task."""
        task = self._of_row(answer.record)
        if self.client.is_modern:
            return stamped({"resultType": "task", **task, "_meta": answer.meta})
        return {"task": task, "_meta": answer.meta}

    async def get(self, record: RunRecord, answering: Answering) -> dict[str, Any]:
        """What has become of a task, with its result where the revision has that here."""
        if record.finished and not self.client.is_modern:
            return self._of_row(record)
        # Clients ask often, and a run may be long: its end is all of its result.
        entries = stored_end(record) or await self.services.runs.events(record.key)
        answer = CallAnswer(record, answering)
        for entry in entries:
            for _ in answer.mapper.map(entry):
                pass
        if answer.mapper.pending:
            waiting = await waiting_calls(self.services, record.key)
            answer.decided = frozenset(answer.mapper.pending.keys() - waiting)
        at = entries[-1].at if entries else 0
        return self._complete(self._of_answer(answer, datetime.fromtimestamp(at / 1000, UTC)))

    async def update(self, record: RunRecord, params: Mapping[str, Any]) -> dict[str, Any]:
        """Apply what the client's user has filled in; raises `Invalid`, `ScopeMissing`."""
        responses = parsed(_Update, params, "params.").input_responses
        await answer_task(self.services, self.caller, record.key, responses)
        return self._complete({})

    async def cancel(self, record: RunRecord) -> dict[str, Any]:
        """Cancel the run; raises `Invalid` where the revision has that for one that has ended."""
        if record.finished and not self.client.is_modern:
            raise Invalid.field("params.taskId", "names a task that has ended")
        await self.services.commands.stop(record.key, "cancel")
        if self.client.is_modern:
            return self._complete({})
        # The response says that it is cancelled, so that has to be so.
        with anyio.move_on_after(WITHIN_S):
            await self.services.runs.wait(record.key)
        return self._of_row(await self.services.runs.get(record.key))

    async def list(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A page of the tasks, newest first; raises `Invalid`."""
        cursor = parsed(types.PaginatedRequestParams, params, "params.").cursor
        try:
            page = PageRequest.of(_PAGE, cursor)
        except Invalid as error:
            raise rename_fields(error.errors, lambda field: f"params.{field}") from error
        chosen = RunFilter(
            api_key_id=self.caller.api_key_id, labels=LabelFilter(end_user=self.caller.end_user)
        )
        runs, following = await self.services.runs.list_runs(self.caller.account_id, page, chosen)
        shown = [run for run in runs if self.has(run) and run.contents_deleted_at is None]
        asking = await self._asking(shown)
        tasks = [
            self._of_row(run) | ({"status": "input_required"} if run.key.run_id in asking else {})
            for run in shown
        ]
        return {"tasks": tasks, **({} if following is None else {"nextCursor": following})}

    async def _asking(self, runs: Sequence[RunRecord]) -> set[RunId]:
        """The ids of those that wait only for what the client can ask its user."""
        chosen = CallFilter(run_ids=[run.key.run_id for run in runs if not run.finished])
        every = PageRequest(MAX_PAGE)
        waits = (await self.services.account_calls.page(self.caller.account_id, chosen, every)).calls
        forms = FORMS if self.caller.may("runs:approve") else FORMS - {"permission"}
        linked = {each.run_id for each in waits if not self.client.has_forms or each.kind not in forms}
        return {each.run_id for each in waits} - linked

    def _of_row(self, record: RunRecord) -> dict[str, Any]:
        updated = record.ended_at or record.started_at or record.created_at
        return self._task(record, _STATUSES[record.status], updated, _why_failed(record))

    def _of_answer(self, answer: CallAnswer, updated: datetime) -> dict[str, Any]:
        record = answer.record
        if answer.mapper.done is not None:
            return self._of_end(answer, updated)
        if not answer.waiting:
            return self._task(record, "working", updated, answer.mapper.shown)
        if not answer.has_forms:
            return self._task(record, "working", updated, answer.link)
        asked = {"inputRequests": answer.requests} if self.client.is_modern else {}
        return {**self._task(record, "input_required", updated, answer.link), **asked}

    def _of_end(self, answer: CallAnswer, updated: datetime) -> dict[str, Any]:
        record, mapper = answer.record, answer.mapper
        if mapper.error is not None and mapper.error.error == "aborted":
            return self._task(record, "cancelled", updated)
        if self.client.is_modern:
            result = result_json(self.client, answer.result())
            return {**self._task(record, "completed", updated), "result": result}
        if mapper.error is None:
            return self._task(record, "completed", updated)
        return self._task(record, "failed", updated, failure_of(mapper.error).detail)

    def _task(
        self, record: RunRecord, status: types.TaskStatus, updated: datetime, message: str = ""
    ) -> dict[str, Any]:
        ttl, poll = ("ttlMs", "pollIntervalMs") if self.client.is_modern else ("ttl", "pollInterval")
        return {
            "taskId": record.key.run_id,
            "status": "completed" if status == "failed" and self.client.is_modern else status,
            **({"statusMessage": message} if message else {}),
            "createdAt": utc_text(record.created_at),
            "lastUpdatedAt": utc_text(max(updated, record.created_at)),
            # It is deleted with its run.
            ttl: None,
            poll: _poll_ms(record),
        }

    def _complete(self, result: dict[str, Any]) -> dict[str, Any]:
        return stamped({"resultType": "complete", **result}) if self.client.is_modern else result


def _why_failed(record: RunRecord) -> str:
    return failure_of(record.final).detail if record.final is not None and record.status == "failed" else ""


def _poll_ms(record: RunRecord) -> int:
    """A tenth of its age: clients learn soon of the end of a short run, and rarely ask about a long one."""
    age_ms = (datetime.now(UTC) - record.created_at).total_seconds() * 1000
    return round(min(max(age_ms / 10, _SHORTEST_POLL_MS), _LONGEST_POLL_MS))
