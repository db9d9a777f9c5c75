"""Evaluates conditions of rules, in a worker process; see `platform/confined/worker.py`."""

import json
from functools import lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext.ext_strings import ExtStrings

VALUES = ("args", "run", "account")
EXTENSIONS = [ExtStrings()]
"""What conditions may use besides the standard library: `lowerAscii`, `split`, `replace`, …"""

_ENVIRONMENT = cel.NewEnv(variables=dict.fromkeys(VALUES, cel.Type.DYN), extensions=EXTENSIONS)


@lru_cache(1_024)
def compiled(condition: str) -> cel.Expression:
    """The condition, without the types of its values; raises `RuntimeError`."""
    return _ENVIRONMENT.compile(condition)


def handle(request: bytes) -> list[Any]:
    """The index of the first condition that is true, or that has no answer; null without one."""
    try:
        asked = json.loads(request)
        for index, condition in enumerate(asked["conditions"]):
            # An error of the evaluation is a value as well: its text.
            answer = compiled(condition).eval(data=asked["values"]).value()
            if answer is not False:
                return ["true" if answer is True else "undecided", index]
    except (RuntimeError, ValueError):
        return ["undecided", None]
    return ["false", None]
