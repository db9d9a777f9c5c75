"""Text and object generation: one prompt, one answer, no tools; executed as a run."""

from functools import partial
from typing import Any

from fastapi import APIRouter
from sse_starlette import EventSourceResponse

from app.http.admission.checks import CheckedRoute, text_body
from app.http.api.generate.schemas import GeneratedObject, GeneratedText
from app.http.dependencies import KeyedPosting, RunStreamsDep, ServicesDep, Writer
from app.http.native.encoder import NativeEncoder
from app.http.native.openapi import STREAM
from app.runs.requests.generate import GenerateObjectRequest, GenerateTextRequest

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
    posting: KeyedPosting,
    streams: RunStreamsDep,
) -> GeneratedText | EventSourceResponse:
    """Answer a prompt. Disconnecting does not stop the run."""
    generation = await services.generator.start(caller, body, **posting)
    if body.stream:
        return streams.events(caller, generation.run, NativeEncoder())
    wait = partial(services.generator.answer, generation)
    final = await streams.result(caller, generation.run, wait)
    return GeneratedText(content=final.content, usage=final.usage, run_id=final.run_id)


@router.post("/object", dependencies=[text_body], summary="Generate an object")
async def generate_object(
    body: GenerateObjectRequest,
    services: ServicesDep,
    caller: Writer,
    posting: KeyedPosting,
    streams: RunStreamsDep,
) -> GeneratedObject:
    """Answer a prompt with an object that matches a JSON schema. Disconnecting does not stop the run."""
    generation = await services.generator.start(caller, body, **posting)
    wait = partial(services.generator.answer, generation)
    final = await streams.result(caller, generation.run, wait)
    return GeneratedObject(object_=final.structured_output, usage=final.usage, run_id=final.run_id)
