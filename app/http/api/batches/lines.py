"""The lines of a batch: one JSON object each, read one after the other."""

from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from app.errors import Invalid
from app.http.admission.json_scan import JsonScanner
from app.http.admission.strict_json import read_json
from app.http.field_errors import invalid_fields
from app.runs.batches.lines import BatchLine

MAX_LINE_BYTES: Final = 4_194_304


def read_lines(body: bytes) -> Iterator[BatchLine]:
    """The lines in their order; raises `Invalid` naming the line and its field.

    Of each line only its own bytes are copied: a body may be large.
    """
    number, start = 0, 0
    while start < len(body):
        number += 1
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        try:
            yield _line(body[start:end] if end - start <= MAX_LINE_BYTES else None)
        except Invalid as error:
            raise error.below(f"lines.{number}") from error
        start = end + 1


def _line(line: bytes | None) -> BatchLine:
    if line is None:
        raise Invalid.field("body", f"must have at most {MAX_LINE_BYTES} bytes")
    # Before it is parsed: small values take many times their bytes.
    JsonScanner().feed(line)
    try:
        value = read_json(line)
    except (ValueError, RecursionError) as error:
        raise Invalid.field("body", "must be a JSON object in UTF-8") from error
    try:
        return BatchLine.model_validate(value)
    except ValidationError as error:
        raise invalid_fields(error, value) from error
