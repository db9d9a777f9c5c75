"""Exports of clients' own agents, attributed and without contents; pure."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from app.errors import Invalid
from app.platform.serialization.large_json import count_parts
from app.platform.telemetry.clients.relay import ReadExport, Signal

_Request: TypeAlias = ExportMetricsServiceRequest | ExportLogsServiceRequest | ExportTraceServiceRequest
_REQUESTS: Final[Mapping[Signal, type[_Request]]] = {
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
}
MAX_RESOURCES: Final = 100
"""Claude Code sends one; each gets the attributes of the sender."""
MAX_PARTS: Final = 100_000
"""Of JSON: a body of brackets alone would take seconds to read."""

_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
_NEVER: Final = ("user.", "enduser.", "organization.", "runtally.", "gen_ai.usage.")
"""What is known better here: who it is of; and usage under names whose sums are those of receipts."""

_KEPT_TEXTS: Final = frozenset(
    {
        *("session.id", "gen_ai.conversation.id", "prompt.id", "message.id", "message.uuid", "request_id"),
        *("gen_ai.response.id", "tool_use_id", "gen_ai.tool.call.id", "agent_id", "parent_agent_id"),
        *("event.name", "event.timestamp", "span.type", "type", "start_type", "source", "parent.source"),
        *("model", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.system", "speed", "effort"),
        *("gen_ai.provider.name", "gen_ai.operation.name", "anthropic.provider", "llm_request.context"),
        *("query_source", "query_source_safe", "stop_reason", "decision", "permission_mode", "language"),
        *("tool_name", "tool_name_safe", "tool_source", "gen_ai.tool.name", "success", "status_code"),
        *("duration_ms", "prompt_length", "body_length", "tool_input_size_bytes", "tool_result_size_bytes"),
        *("terminal.type", "service.version", "host.arch", "os.type", "os.version"),
    }
)
"""Of the attributes of Claude Code, those that have no content: names, kinds, ids and numbers as text."""

_EVENT: Final = re.compile(r"claude_code\.[a-z_]{1,64}")
_JSON: Final = "application/json"
_UNREADABLE: Final = (
    *(DecodeError, json_format.Error),
    # Of numbers and nesting that the parser of protobuf does not expect.
    *(ValueError, TypeError, AttributeError, RecursionError, OverflowError),
)


class NotAnExport(Invalid):
    """The body is not an OTLP export of this signal."""


def reader_of(signal: Signal, *, keeps_contents: bool) -> ReadExport:
    """What reads exports of a signal; raises `NotAnExport`."""
    return partial(_read, _REQUESTS[signal], keeps_contents=keeps_contents)


def _read(
    kind: type[_Request],
    body: bytes,
    media_type: str,
    attributes: Mapping[str, str],
    *,
    keeps_contents: bool,
) -> bytes:
    request = _parsed(kind, body, media_type)
    # What a newer receiver would understand was not checked here.
    request.DiscardUnknownFields()
    ((_, entries),) = request.ListFields() or ((None, ()),)
    if len(entries) > MAX_RESOURCES:
        raise NotAnExport.field("body", f"has more than {MAX_RESOURCES} resources")
    _clean(request, keeps_contents=keeps_contents)
    own = [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in attributes.items()]
    for entry in entries:
        others = [each for each in entry.resource.attributes if each.key not in attributes]
        del entry.resource.attributes[:]
        entry.resource.attributes.extend([*others, *own])
    return request.SerializeToString()


def _parsed(kind: type[_Request], body: bytes, media_type: str) -> _Request:
    try:
        if media_type != _JSON:
            return kind.FromString(body)
        if count_parts(body) > MAX_PARTS:
            raise NotAnExport.field("body", f"has more than {MAX_PARTS} commas and opening brackets")
        value = json.loads(body, object_hook=_with_base64_ids)
        if not isinstance(value, dict):
            raise NotAnExport
        return json_format.ParseDict(value, kind(), ignore_unknown_fields=True)
    except _UNREADABLE as error:
        raise NotAnExport from error


def _with_base64_ids(value: dict[str, Any]) -> dict[str, Any]:
    """Ids, which OTLP writes as hexadecimal, as the JSON of protobuf has bytes."""
    for name in _IDS & value.keys():
        value[name] = b64encode(bytes.fromhex(value[name])).decode()
    return value


def _clean(message: Message, *, keeps_contents: bool) -> None:
    """Remove from a message, and all that are in it, contents and whatever a client may not say."""
    if isinstance(message, Status) and not keeps_contents:
        message.ClearField("message")
    if (
        isinstance(message, LogRecord)
        and not keeps_contents
        and not _EVENT.fullmatch(message.body.string_value)
    ):
        message.ClearField("body")
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type is AnyValue.DESCRIPTOR:
            continue
        if field.message_type is KeyValue.DESCRIPTOR:
            kept = [each for each in value if _is_kept(each, keeps_contents=keeps_contents)]
            del value[:]
            value.extend(kept)
            continue
        for each in value if field.is_repeated else (value,):
            _clean(each, keeps_contents=keeps_contents)


def _is_kept(pair: KeyValue, *, keeps_contents: bool) -> bool:
    if pair.key.startswith(_NEVER):
        return False
    kind = pair.value.WhichOneof("value")
    is_number = kind in {"bool_value", "int_value", "double_value"}
    return keeps_contents or is_number or (kind == "string_value" and pair.key in _KEPT_TEXTS)
