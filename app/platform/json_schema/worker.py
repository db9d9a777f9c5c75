"""Worker process that checks schemas and values: `python -I worker.py`.

Standard input and output are pipes to the server. It exits when they close, and when a check has used up
its processor time. It has few imports, so that it starts quickly.
"""

import json
import os
import resource
import signal
import struct
import sys
from functools import partial
from typing import Any, BinaryIO

import jsonschema_rs

REQUEST = struct.Struct(">BfII")
"""Dialect, seconds of processor time, length of the schema, length of the value."""
REPLY = struct.Struct(">I")
MAX_MEMORY = 512 * 1024 * 1024
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


def main() -> None:
    """Handle requests until standard input closes."""
    # Ctrl-C and SIGTERM are meant for the server; this process ends with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The default action ends the process, whatever code is running.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    # Lower priority than the server.
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    while len(header := reading.read(REQUEST.size)) == REQUEST.size:
        dialect, seconds, schema_bytes, value_bytes = REQUEST.unpack(header)
        schema, value = reading.read(schema_bytes), reading.read(value_bytes)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        reply = json.dumps(_checked(dialect, schema, value)).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(writing, reply)


def _checked(dialect: int, schema: bytes, value: bytes) -> list[Any]:
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


def _send(writing: BinaryIO, reply: bytes) -> None:
    writing.write(REPLY.pack(len(reply)) + reply)
    writing.flush()


if __name__ == "__main__":
    main()
