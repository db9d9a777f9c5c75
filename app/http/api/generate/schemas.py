"""JSON of generated texts and objects."""

from typing import Annotated, Any

from pydantic import Field

from app.http.response_model import ResponseModel
from app.requests.outcome import FinalUsage


class GeneratedText(ResponseModel):
    """A generated text."""

    content: str
    usage: FinalUsage
    run_id: str


class GeneratedObject(ResponseModel):
    """A generated object; it matches the requested schema."""

    object_: Annotated[Any, Field(alias="object")]
    usage: FinalUsage
    run_id: str
