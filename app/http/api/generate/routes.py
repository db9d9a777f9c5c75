"""Text and object generation: one prompt, one answer, no tools; executed as a run."""

from typing import Any

from fastapi import APIRouter, Request
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.http.admission.checks import CheckedRoute, text_body
from app.http.api.generate.schemas import GeneratedObject, GeneratedText
from app.http.dependencies import (
    HeartbeatS,
    IdempotencyKey,
    OpenStreamReader,
    RequestId,
    ServicesDep,
    TraceOfCaller,
    Writer,
)
from app.http.native.encoder import NativeEncoder
from app.http.native.openapi import STREAM
from app.http.streaming.disconnect import while_connected
from app.http.streaming.sse import stream_events
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.principal import Principal
from app.runs.generate import Generation
from app.runs.requests.generate import GenerateObjectRequest, GenerateRequest, GenerateTextRequest

router = APIRouter(route_class=CheckedRoute, prefix="/v1/generate", tags=["generate"])

TEXT: dict[int | str, dict[str, Any]] = {
    200: {**STREAM[200], "description": "The answer; with `stream`, the run's events."}
}


@router.post(
    "/text",
    dependencies=[text_body],
    response_model=GeneratedText,
    responses=TEXT,
    summary="Generate a text",
)
async def generate_text(
    body: GenerateTextRequest,
    services: ServicesDep,
    caller: Writer,
    request_id: RequestId,
    key: IdempotencyKey,
    heartbeat_s: HeartbeatS,
    *,
    trace: TraceOfCaller,
    open_reader: OpenStreamReader,
    request: Request,
) -> GeneratedText | EventSourceResponse:
    """Answer a prompt. Disconnecting does not stop the run."""
    generation = await _start(services, caller, body, request_id, key, trace=trace)
    if body.stream:
        return stream_events(
            services.runs.follow(generation.run),
            NativeEncoder(),
            heartbeat_s=heartbeat_s,
            reader_scope=open_reader(caller, generation.run),
        )
    with open_reader(caller, generation.run):
        final = await while_connected(request, services.generator.answer(generation))
    return GeneratedText(content=final.content, usage=final.usage, run_id=final.run_id)


@router.post("/object", dependencies=[text_body], summary="Generate an object")
async def generate_object(
    body: GenerateObjectRequest,
    services: ServicesDep,
    caller: Writer,
    request_id: RequestId,
    key: IdempotencyKey,
    *,
    trace: TraceOfCaller,
    open_reader: OpenStreamReader,
    request: Request,
) -> GeneratedObject:
    """Answer a prompt with an object that matches a JSON schema. Disconnecting does not stop the run."""
    generation = await _start(services, caller, body, request_id, key, trace=trace)
    with open_reader(caller, generation.run):
        final = await while_connected(request, services.generator.answer(generation))
    return GeneratedObject(object_=final.structured_output, usage=final.usage, run_id=final.run_id)


async def _start(
    services: Services,
    caller: Principal,
    body: GenerateRequest,
    request_id: str,
    idempotency_key: str | None,
    *,
    trace: CallerTrace | None,
) -> Generation:
    return await services.generator.start(
        caller,
        body,
        request_id=request_id,
        idempotency_key=idempotency_key,
        caller_trace=trace,
    )
