"""What is left of an export of a client's own agent, and whose it says that it is."""

import json
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.platform.telemetry.clients.relay import Signal
from app.platform.telemetry.sdk.client_exports import MAX_PARTS, MAX_RESOURCES, NotAnExport, reader_of

JSON, PROTOBUF = "application/json", "application/x-protobuf"
SECRET = "the heron flies at dawn"
OWN = {"service.name": "claude-code", "runtally.account": "acme", "user.id": "anna"}
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAMES = {
    "user.email": "ceo@acme.example",
    "user.account_uuid": "a-1",
    "user.id": "7f",
    "enduser.id": "ceo",
    "organization.id": "o-1",
    "runtally.account": "other",
    "runtally.cost_usd": "0",
}
TEXTS = {"prompt": SECRET, "user_prompt": SECRET, "body": SECRET, "error": SECRET, "new.name": SECRET}
KEPT = {"session.id": "s-1", "request_id": "req_1", "model": "claude-opus-5-5"}


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


ATTRIBUTES = [
    *pairs({**NAMES, **TEXTS, **KEPT, "service.name": "runtally"}),
    {"key": "input_tokens", "value": {"intValue": "10"}},
    {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "10"}},
    {"key": "success", "value": {"boolValue": True}},
    {"key": "content", "value": {"arrayValue": {"values": [{"stringValue": SECRET}]}}},
    {"key": "raw", "value": {"bytesValue": "aGVyb24="}},
]
POINT = {"asInt": "10", "attributes": ATTRIBUTES, "exemplars": [{"filteredAttributes": ATTRIBUTES}]}
SPANS = {
    "traceId": TRACE,
    "spanId": SPAN,
    "name": "claude_code.llm_request",
    "attributes": ATTRIBUTES,
    "events": [{"name": "tool.output", "attributes": ATTRIBUTES}],
    "links": [{"traceId": TRACE, "spanId": SPAN, "attributes": ATTRIBUTES}],
    "status": {"code": 2, "message": SECRET},
}
RECORDS = [
    {"body": {"stringValue": "claude_code.api_request"}, "attributes": ATTRIBUTES, "traceId": TRACE},
    {"body": {"stringValue": SECRET}},
]
RESOURCE = {"attributes": ATTRIBUTES}
SCOPE = {"name": "com.anthropic.claude_code", "attributes": ATTRIBUTES}
METRICS = [{"name": "claude_code.token.usage", "sum": {"dataPoints": [POINT]}}]
EXPORTS: dict[Signal, tuple[Any, dict[str, Any]]] = {
    "metrics": (
        ExportMetricsServiceRequest,
        {"resourceMetrics": [{"resource": RESOURCE, "scopeMetrics": [{"scope": SCOPE, "metrics": METRICS}]}]},
    ),
    "logs": (
        ExportLogsServiceRequest,
        {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"scope": SCOPE, "logRecords": RECORDS}]}]},
    ),
    "traces": (
        ExportTraceServiceRequest,
        {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [{"scope": SCOPE, "spans": [SPANS]}]}]},
    ),
}


def read(signal: Signal, body: bytes, media_type: str = JSON, *, keeps_contents: bool = False) -> Any:
    kind, _ = EXPORTS[signal]
    return kind.FromString(reader_of(signal, keeps_contents=keeps_contents)(body, media_type, OWN))


def attributes_in(message: Message) -> Iterator[dict[str, Any]]:
    """The attributes of every message that has some."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.name == "KeyValue":
            kinds = [(each.key, each.value, each.value.WhichOneof("value")) for each in value]
            yield {key: getattr(found, kind) for key, found, kind in kinds}
        else:
            for each in value if field.is_repeated else (value,):
                yield from attributes_in(each)


@pytest.mark.parametrize("signal", EXPORTS)
def test_it_is_of_the_key_and_has_no_contents(signal: Signal) -> None:
    _, export = EXPORTS[signal]

    found = read(signal, json.dumps(export).encode())

    resource, *others = attributes_in(found)
    kept = {**KEPT, "input_tokens": 10, "success": True}
    assert resource == {**kept, **OWN}
    assert len(others) >= 2
    assert all(each == kept for each in others)
    assert SECRET not in str(found)


@pytest.mark.parametrize("signal", EXPORTS)
def test_contents_are_kept_where_they_may_be_and_names_are_not(signal: Signal) -> None:
    _, export = EXPORTS[signal]

    found = list(attributes_in(read(signal, json.dumps(export).encode(), keeps_contents=True)))

    assert all(each.items() >= TEXTS.items() for each in found)
    assert {name for each in found for name in each} & NAMES.keys() == {"runtally.account", "user.id"}
    assert found[0].items() >= OWN.items()
    assert not any(NAMES.keys() & each.keys() for each in found[1:])


def test_ids_are_hexadecimal_in_json_and_events_keep_their_names() -> None:
    (spans,) = read("traces", json.dumps(EXPORTS["traces"][1]).encode()).resource_spans
    (logs,) = read("logs", json.dumps(EXPORTS["logs"][1]).encode()).resource_logs

    (span,) = spans.scope_spans[0].spans
    event, other = logs.scope_logs[0].log_records
    assert (span.trace_id.hex(), span.span_id.hex(), span.links[0].span_id.hex()) == (TRACE, SPAN, SPAN)
    assert (span.status.code, span.status.message) == (2, "")
    assert (event.trace_id.hex(), event.body.string_value) == (TRACE, "claude_code.api_request")
    assert not other.HasField("body")


def test_what_names_no_resource_is_of_the_key_too() -> None:
    kind, _ = EXPORTS["logs"]
    export = kind(resource_logs=[{"scope_logs": [{}]}, {}]).SerializeToString()

    found = list(attributes_in(read("logs", export, PROTOBUF)))

    assert found == [OWN, OWN]
    assert read("logs", b"", PROTOBUF) == kind()


def test_fields_that_are_not_known_are_not_passed_on() -> None:
    kind, _ = EXPORTS["logs"]
    hidden = b"\xfa\x01" + bytes([len(SECRET)]) + SECRET.encode()
    export = kind(resource_logs=[{}]).SerializeToString() + hidden

    assert kind.FromString(export).SerializeToString().count(SECRET.encode()) == 1
    assert SECRET.encode() not in read("logs", export, PROTOBUF).SerializeToString()


def of_all_signals(value: dict[str, Any]) -> bytes:
    """A body whose entries have this, whatever its signal is."""
    metric = {"name": "a", "gauge": {"dataPoints": [value]}}
    scopes: dict[str, Any] = {
        "resourceMetrics": {"scopeMetrics": [{"metrics": [metric]}]},
        "resourceLogs": {"scopeLogs": [{"logRecords": [value]}]},
        "resourceSpans": {"scopeSpans": [{"spans": [value]}]},
    }
    return json.dumps({name: [scope] for name, scope in scopes.items()}).encode()


@pytest.mark.parametrize("signal", EXPORTS)
@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"\x0a\xff\xff", PROTOBUF),
        (b"\xff" * 100, PROTOBUF),
        (b'{"resourceLogs": []}', PROTOBUF),
        (b"{", JSON),
        (b"\xff", JSON),
        (b"[]", JSON),
        (b"7", JSON),
        (b"null", JSON),
        (b'{"traceId": 7}', JSON),
        (b'{"traceId": "xyz"}', JSON),
        (b'{"a":' * 5000, JSON),
        (of_all_signals({"asDouble": 10**400, "severityNumber": inf, "kind": inf}), JSON),
        (b'{"resourceLogs": 7, "resourceSpans": 7, "resourceMetrics": 7}', JSON),
        (b'{"resourceLogs": [7], "resourceSpans": [7], "resourceMetrics": [7]}', JSON),
    ],
)
def test_what_is_no_export_is_refused(signal: Signal, body: bytes, media_type: str) -> None:
    with pytest.raises(NotAnExport):
        read(signal, body, media_type)


def test_json_of_brackets_alone_is_not_read() -> None:
    body = b'{"resourceLogs": [' + b"{}," * MAX_PARTS + b"{}]}"

    with pytest.raises(NotAnExport, match="commas"):
        read("logs", body)


def test_resources_are_few() -> None:
    kind, _ = EXPORTS["traces"]

    with pytest.raises(NotAnExport, match="resources"):
        read("traces", kind(resource_spans=[{}] * (MAX_RESOURCES + 1)).SerializeToString(), PROTOBUF)
