"""Hooks of schemathesis: rules of this API that an OpenAPI document cannot express."""

import os
import re
from http import HTTPStatus
from typing import Any, Final

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

from app.http.openapi.document import EVENT_SCHEMA
from tests.e2e.agents import CLAUDE, MESSAGES

OWN_KEY: Final = "FUZZ_OWN_KEY_ID"
INEXPRESSIBLE: Final = {
    "a reference that must exist": r"cursor: is not a|role: there is no|model: .* is neither|"
    r"resume\.\d+\.interruptId: |toolIds(\.\d+)?: ",
    "a rule about two fields": r"messages: (is required|cannot be combined with message)|forkFrom: |"
    r"messages: must be omitted if there is an input|"
    r"to: must be later than|body: give either|role: a role selects the model|"
    r"splitBy: must (be another than groupBy|have the end user)|"
    r"tag: cannot be combined|groupBy: is needed where|startAfter: cannot be combined|"
    r"match: must be|stop: is only for a denial|body: stopRuns needs suspended|"
    r"(eventType|subject|secret): is (only for the formats|needed in the format)|"
    r"(events: must be receipt\.created alone|url: cannot be changed) in the format",
    "a rule about the messages for a model": r"messages: must have at least|messages: must be one|"
    r"messages(\.\d+)?: .*must be the user's|messages\.\d+\.tool_call_id: must be that of a call",
    "a rule about a list's items together": r"(files|clientTools): contains a (path|name) twice|"
    r"files: uses a path both",
    "Unicode's visible characters": r"\S+: must not be blank",
    "a rule about a message's parts": r"messages\.\d+(\.content)?: a message of role|"
    r"\S*parts: (hold no text|must hold)|"
    r"messages\.\d+(\.parts\.\d+\.url: |\.content: must (have at least|hold an attachment))",
    "a rule about the last message": r"messages\.\d+\.id: must have 1 to",
    "rules about attachments": r"(messages\.\d+\.)?(content|parts)\.\d+(\.\w+){0,2}: ",
    "a rule about parts of a text": r"files\.\d+\.path: ",
    "what the graph allows": r".*accepts no system messages|files: the graph|input(\.\S+)?: ",
    "a library's list": r"timeZone: must be an IANA time zone",
    "the language of cron": r"cron: ",
    "times that are compared": r"(startAt|expiresAt): must be in|endAt: must be later than",
    "rules about JSON schemas": r"(schema|responseFormat\.schema)\S*: ",
    "rules about URLs": r"url: ",
    "the lines of a batch": r"lines(\.\d+\S*)?: |filePath: |body: must have at least one line",
}
"""Reasons for a 422 of a request that matches the document, as patterns of field and message."""
JUDGED_BY_OTHERS: Final = (
    *("/anthropic/", "/managed-agents/", "/mcp", "/openai/v1/responses", "/openai/v1/conversations"),
)
"""Paths whose requests have forms of others, of which only a part is served.

Most of a call of the model is the provider's to judge.
"""
REPLACED: Final = (("url", "example.com", "runtally.invalid"), ("model", f"{CLAUDE}:", f"{MESSAGES}:"))
"""Fields of bodies, and what is replaced in them."""
ENDLESS: Final = "/managed-agents/v1/sessions/{sessionId}/events/stream"
UNKNOWN_HEADER: Final = "x-schemathesis-unknown-property"
NUMBERS: Final = r".*must be (an integer|a decimal in quotes)"
"""To JSON Schema 1.0 is an integer; here it is not."""

_STATE_DEPENDENT = {HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.GONE}


@schemathesis.serializer("application/jsonl", "application/x-ndjson")
def write_lines(_context: Any, value: Any) -> bytes:
    """Lines of JSON are a text."""
    return str(value).encode()


@schemathesis.hook
def filter_failure(_context: Any, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Ignore failures with the reasons above.

    Also, a run is still found after its deletion, because only its contents are deleted.
    """
    if UNKNOWN_HEADER in case.headers:
        # HTTP lets clients send any header.
        return False
    if isinstance(failure, UseAfterFree):
        return not case.path.startswith("/v1/runs/{runId}")
    if isinstance(failure, AcceptedNegativeData):
        # Templates of AI SDK chats post null for what is not chosen, which is not promised to others.
        # An error of JSON-RPC has status 200.
        return not (case.path == "/mcp" or (case.path.startswith("/v1/ai-sdk/") and _holds_null(case.body)))
    if not isinstance(failure, RejectedPositiveData):
        return True
    if response.status_code in _STATE_DEPENDENT or case.path.startswith(JUDGED_BY_OTHERS):
        return False
    rules = [*INEXPRESSIBLE.values(), *([NUMBERS] if _holds_whole_float(case.body) else [])]
    expected = re.compile("|".join(rules))
    body = response.json()
    errors = body.get("errors", [])
    # A schedule contains the request of a run.
    messages = [f"{error['field'].removeprefix('run.')}: {error['message']}" for error in errors]
    # In the form of OpenAI's API, which has one error.
    messages += [body["error"]["message"]] if "error" in body else []
    return not messages or not all(expected.match(message) for message in messages)


def _holds_null(body: object) -> bool:
    return isinstance(body, dict) and None in body.values()


def _holds_whole_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(_holds_whole_float(each) for each in value.values())
    if isinstance(value, list):
        return any(_holds_whole_float(each) for each in value)
    return isinstance(value, float) and value.is_integer()


@schemathesis.hook
def filter_case(_context: Any, case: Case[Any]) -> bool:
    """Do not revoke the key of the fuzzer."""
    return os.environ[OWN_KEY] not in str(case.path_parameters)


@schemathesis.hook
def before_call(_context: Any, case: Case[Any], _kwargs: dict[str, Any]) -> None:
    """Replace hosts that exist, graphs that need the CLI, and sessions whose stream would never end."""
    if isinstance(case.body, dict):
        for field, old, new in REPLACED:
            if isinstance(value := case.body.get(field), str):
                case.body[field] = value.replace(old, new)
    if case.path == ENDLESS:
        case.path_parameters["sessionId"] = "sesn_unknown"


@schemathesis.hook
def before_load_schema(_context: Any, raw_schema: dict[str, Any]) -> None:
    """Check the events of streams, which OpenAPI 3.1 describes as text: by the schema that we add."""
    for path in raw_schema["paths"].values():
        for operation in path.values():
            content = operation["responses"].get("200", {}).get("content", {})
            stream = content.get("text/event-stream", {})
            if event := stream.get(EVENT_SCHEMA):
                data = {"type": "string", "contentMediaType": "application/json", "contentSchema": event}
                text = {"type": "string"}
                fields = {"data": data, "retry": {"type": "integer"}, "event": text, "id": text}
                stream["schema"] = {"type": "object", "properties": fields}
