"""Checks a schema and a value, in a worker process; see `confined/worker.py`."""

import json
import struct
from functools import partial
from typing import Any

import jsonschema_rs

HEADER = struct.Struct(">BI")
"""Dialect, length of the schema; schema and value follow."""
MAX_REPLY_CHARS = 500

_VALIDATORS = (
    jsonschema_rs.Draft202012Validator,
    jsonschema_rs.Draft201909Validator,
    jsonschema_rs.Draft7Validator,
    jsonschema_rs.Draft6Validator,
)
# The engine without backtracking: matching takes time proportional to the text.
_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
# For look-around and back-references: a match that takes more steps counts as none.
_BACKTRACKING = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=10_000, size_limit=1 << 20, dfa_size_limit=1 << 20
)


def handle(request: bytes) -> list[Any]:
    """Verdict, path and reason."""
    dialect, schema_bytes = HEADER.unpack_from(request)
    value_from = HEADER.size + schema_bytes
    schema, value = request[HEADER.size : value_from], request[value_from:]
    try:
        validator = _validator(dialect, schema)
    except jsonschema_rs.ValidationError as fault:
        return ["unusable", list(fault.instance_path)[:64], _reason(fault)]
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return ["unusable", [], str(error)[:MAX_REPLY_CHARS]]
    try:
        validator.validate(json.loads(value))
    except jsonschema_rs.ValidationError as fault:
        return ["mismatch", list(fault.instance_path)[:64], fault.message[:MAX_REPLY_CHARS]]
    except (ValueError, RecursionError) as error:
        return ["uncheckable", [], str(error)[:MAX_REPLY_CHARS]]
    return ["valid", [], ""]


def _validator(dialect: int, schema: bytes) -> Any:
    """The validator of a schema; raises `ValidationError`, `ReferencingError`, `ValueError`."""
    make = partial(_VALIDATORS[dialect], schema.decode(), validate_formats=False, offline=True)
    try:
        return make(pattern_options=_LINEAR)
    except jsonschema_rs.ValidationError as fault:
        if not _is_pattern(fault):
            raise
    return make(pattern_options=_BACKTRACKING)


def _is_pattern(fault: jsonschema_rs.ValidationError) -> bool:
    return getattr(fault.kind, "name", "") == "format"


def _reason(fault: jsonschema_rs.ValidationError) -> str:
    if _is_pattern(fault):
        return "is not a regular expression that can be used"
    return fault.message[:MAX_REPLY_CHARS]
