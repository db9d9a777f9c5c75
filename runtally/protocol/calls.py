"""The calls of the API, one function for each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from runtally import types
from runtally.model import read
from runtally.options import (
    ApprovalFilters,
    ConversationFilters,
    DecisionOptions,
    Priority,
    ReceiptFilters,
    RunFilters,
    UsageOptions,
    decision_body,
    moment,
)
from runtally.protocol.billing import Balance, Receipt, UsageReport
from runtally.protocol.call import Call, Page, nothing, one, page, page_call, page_query, query_of, segment

_EVENTS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


def start_run(body: dict[str, Any]) -> Call[types.StartedRun]:
    """Start a run, or join the one with its id."""
    return Call(method="POST", path="/v1/runs", body=body, parse=one(types.StartedRun))


def stream_run(body: dict[str, Any]) -> Call[None]:
    """Start a run, or join the one with its id, and stream its events from the first."""
    return Call(method="POST", path="/v1/runs/stream", body=body, headers=_EVENTS, parse=nothing)


def wait_for_run(body: dict[str, Any]) -> Call[types.GraphFinal]:
    """Start a run, or join the one with its id, and respond when it has ended."""
    return Call(method="POST", path="/v1/runs/wait", body=body, parse=one(types.GraphFinal))


def stream_run_events(run_id: str, *, after: int) -> Call[None]:
    """Stream a run's events after a position."""
    headers = {**_EVENTS, "Last-Event-ID": str(after)} if after else _EVENTS
    return Call(method="GET", path=f"{_run(run_id)}/events", headers=headers, parse=nothing)


def get_run(run_id: str) -> Call[types.Run]:
    """The state of a run."""
    return Call(method="GET", path=_run(run_id), parse=one(types.Run))


def list_runs(filters: RunFilters, cursor: str | None) -> Call[Page[types.Run]]:
    """A page of runs."""
    return page_call("/v1/runs", types.Run, cursor, query_of(filters))


def preview_run(body: dict[str, Any]) -> Call[types.RunPreview]:
    """Plan a run without starting it."""
    return Call(method="POST", path="/v1/runs/preview", body=body, parse=one(types.RunPreview))


def change_run(run_id: str, *, permission_mode: str) -> Call[None]:
    """Change how further tool calls of a run are decided."""
    return Call(method="PATCH", path=_run(run_id), body={"permissionMode": permission_mode}, parse=nothing)


def get_request(run_id: str) -> Call[dict[str, Any]]:
    """The request that has started a run."""
    return Call(method="GET", path=f"{_run(run_id)}/request", parse=dict)


def list_evidence(run_id: str, cursor: str | None) -> Call[Page[types.Evidence]]:
    """A page of what a run did."""
    return page_call(f"{_run(run_id)}/evidence", types.Evidence, cursor)


def cancel_run(run_id: str) -> Call[types.StartedRun]:
    """Cancel a run."""
    return Call(method="POST", path=f"{_run(run_id)}/cancel", parse=one(types.StartedRun))


def interrupt_run(run_id: str, *, after_tool: bool) -> Call[types.StartedRun]:
    """Stop the current turn of a run."""
    body = {"after": "tool"} if after_tool else None
    return Call(method="POST", path=f"{_run(run_id)}/interrupt", body=body, parse=one(types.StartedRun))


def send_message(run_id: str, text: str, *, priority: Priority) -> Call[types.SentMessage]:
    """Send a message to a running agent; the key makes a repeated request the same message."""
    return Call(
        method="POST",
        path=f"{_run(run_id)}/messages",
        body={"content": text, "priority": priority},
        headers={"Idempotency-Key": str(uuid4())},
        parse=one(types.SentMessage),
    )


def decide_permission(run_id: str, request_id: str, *, allow: bool, options: DecisionOptions) -> Call[None]:
    """Decide on a tool call that waits for consent."""
    path = f"{_run(run_id)}/permissions/{segment(request_id)}"
    return Call(method="POST", path=path, body=decision_body(options, allow=allow), parse=nothing)


def give_feedback(run_id: str, rating: Literal["up", "down"], note: str | None) -> Call[types.Feedback]:
    """Keep what a person thinks of the answer of a run."""
    body = {"rating": rating, "note": note}
    return Call(method="PUT", path=f"{_run(run_id)}/feedback", body=body, parse=one(types.Feedback))


def list_approvals(filters: ApprovalFilters, cursor: str | None) -> Call[Page[types.Approval]]:
    """A page of what waits for a person."""
    return page_call("/v1/approvals", types.Approval, cursor, query_of(filters))


def answer_question(
    run_id: str, request_id: str, answers: Mapping[str, str | Sequence[str]] | None
) -> Call[None]:
    """Answer a question, or decline to; the same answers may be sent again."""
    posted = None
    if answers is not None:
        posted = {key: each if isinstance(each, str) else list(each) for key, each in answers.items()}
    path = f"{_run(run_id)}/questions/{segment(request_id)}"
    return Call(method="POST", path=path, body={"answers": posted}, parse=nothing)


def submit_tool_result(run_id: str, tool_call_id: str, result: Any, *, is_error: bool) -> Call[None]:
    """Answer a call of a client tool; the same result may be sent again."""
    path = f"{_run(run_id)}/tool-results/{segment(tool_call_id)}"
    body = {"result": result, "isError": is_error}
    return Call(method="POST", path=path, body=body, parse=nothing)


def list_receipts(filters: ReceiptFilters, cursor: str | None) -> Call[Page[Receipt]]:
    """A page of receipts."""
    return page_call("/v1/receipts", Receipt, cursor, query_of(filters))


def list_run_receipts(run_id: str) -> Call[Page[Receipt]]:
    """The receipts of a run, all on one page."""
    return Call(method="GET", path=f"{_run(run_id)}/receipts", parse=page(Receipt))


def get_usage(options: UsageOptions) -> Call[UsageReport]:
    """Sums over receipts."""
    return Call(method="GET", path="/v1/usage", query=query_of(options), parse=one(UsageReport))


def get_balance() -> Call[Balance]:
    """The account's credit."""
    return Call(method="GET", path="/v1/balance", parse=one(Balance))


def list_graphs() -> Call[Page[types.Graph]]:
    """All graphs."""
    return Call(method="GET", path="/v1/graphs", parse=page(types.Graph))


def list_tools() -> Call[Page[types.ToolDescription]]:
    """All tools."""
    return Call(method="GET", path="/v1/tools", parse=page(types.ToolDescription))


def list_models() -> Call[Page[types.LanguageModel]]:
    """All models."""
    return Call(method="GET", path="/v1/models", parse=page(types.LanguageModel))


def list_conversations(filters: ConversationFilters, cursor: str | None) -> Call[Page[types.Conversation]]:
    """A page of conversations."""
    return page_call("/v1/sessions", types.Conversation, cursor, query_of(filters))


def get_conversation(state_key: str) -> Call[types.Conversation]:
    """A conversation, without its messages."""

    def parse(document: Any) -> types.Conversation:
        head = document if isinstance(document, dict) else {}
        left_out = {"messages", "nextCursor"}
        return read(types.Conversation, {name: value for name, value in head.items() if name not in left_out})

    return Call(method="GET", path=_conversation(state_key), query={"limit": "1"}, parse=parse)


def list_conversation_messages(state_key: str, cursor: str | None) -> Call[Page[types.ConversationMessage]]:
    """A page of a conversation's messages, oldest first."""
    parse = page(types.ConversationMessage, "messages")
    return Call(method="GET", path=_conversation(state_key), query=page_query(cursor), parse=parse)


def change_conversation(
    state_key: str, *, title: str | None, pinned: bool | None, archived: bool | None
) -> Call[types.Conversation]:
    """Rename, pin or archive a conversation."""
    given = {"title": title, "pinned": pinned, "archived": archived}
    body = {name: value for name, value in given.items() if value is not None}
    return Call(method="PATCH", path=_conversation(state_key), body=body, parse=one(types.Conversation))


def export_conversation(state_key: str, format_: Literal["markdown", "json"]) -> Call[bytes]:
    """All messages of a conversation as one document."""
    path = f"{_conversation(state_key)}/export"
    return Call(method="GET", path=path, query={"format": format_}, parse=bytes, is_json=False)


def create_share(
    state_key: str, *, expires_at: datetime | None, with_tool_calls: bool
) -> Call[types.CreatedShare]:
    """Share a conversation; a repeated request would make a second link."""
    body: dict[str, Any] = {"withToolCalls": with_tool_calls}
    if expires_at is not None:
        body["expiresAt"] = moment(expires_at)
    path = f"{_conversation(state_key)}/shares"
    return Call(method="POST", path=path, body=body, parse=one(types.CreatedShare), repeatable=False)


def list_shares(state_key: str) -> Call[Page[types.Share]]:
    """The share links of a conversation."""
    return Call(method="GET", path=f"{_conversation(state_key)}/shares", parse=page(types.Share))


def revoke_share(state_key: str, share_id: str) -> Call[None]:
    """Revoke a share link; a repeated request would not find it."""
    path = f"{_conversation(state_key)}/shares/{segment(share_id)}"
    return Call(method="DELETE", path=path, parse=nothing, repeatable=False)


def fork_conversation(state_key: str, *, at: str | None, new_key: str | None) -> Call[types.Conversation]:
    """Copy a conversation up to a run; a repeated request would make a second copy."""
    given = {"at": at, "stateKey": new_key}
    body = {name: value for name, value in given.items() if value is not None}
    path = f"{_conversation(state_key)}/fork"
    return Call(method="POST", path=path, body=body, parse=one(types.Conversation), repeatable=False)


def list_branches(state_key: str) -> Call[Page[types.Branch]]:
    """The branches of a conversation, oldest first."""
    return Call(method="GET", path=f"{_conversation(state_key)}/branches", parse=page(types.Branch))


def list_workspace(state_key: str) -> Call[types.ConversationFiles]:
    """The files that are kept for a conversation."""
    path = f"{_conversation(state_key)}/workspace"
    return Call(method="GET", path=path, parse=one(types.ConversationFiles))


def list_grants(state_key: str) -> Call[Page[types.Grant]]:
    """What is allowed for the rest of a conversation."""
    return Call(method="GET", path=f"{_conversation(state_key)}/grants", parse=page(types.Grant))


def revoke_grant(state_key: str, grant_id: str) -> Call[None]:
    """Revoke a grant; a repeated request would not find it."""
    path = f"{_conversation(state_key)}/grants/{segment(grant_id)}"
    return Call(method="DELETE", path=path, parse=nothing, repeatable=False)


def return_to_branch(state_key: str, branch_id: str) -> Call[Page[types.Branch]]:
    """Continue a conversation on one of its branches."""
    path = f"{_conversation(state_key)}/branch"
    return Call(method="PUT", path=path, body={"branchId": branch_id}, parse=page(types.Branch))


def delete_conversation(state_key: str) -> Call[None]:
    """Delete a conversation; a repeated request would not find it."""
    return Call(method="DELETE", path=_conversation(state_key), parse=nothing, repeatable=False)


def list_files(run_id: str) -> Call[Page[types.RunFile]]:
    """List the files of a run's workspace."""
    return Call(method="GET", path=f"{_run(run_id)}/files", parse=page(types.RunFile))


def read_file(run_id: str, path: str) -> Call[bytes]:
    """Download a file of a run's workspace."""
    return Call(
        method="GET",
        path=f"{_run(run_id)}/files/{'/'.join(map(segment, path.split('/')))}",
        parse=bytes,
        is_json=False,
    )


def read_archive(run_id: str, form: Literal["zip", "tar"]) -> Call[bytes]:
    """Download all files of a run's workspace."""
    path = f"{_run(run_id)}/archive"
    return Call(method="GET", path=path, query={"format": form}, parse=bytes, is_json=False)


def delete_run(run_id: str) -> Call[None]:
    """Delete the contents of an ended run."""
    return Call(method="DELETE", path=_run(run_id), parse=nothing)


def _run(run_id: str) -> str:
    return f"/v1/runs/{segment(run_id)}"


def _conversation(state_key: str) -> str:
    return f"/v1/sessions/{segment(state_key)}"
