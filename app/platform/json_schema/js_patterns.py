"""Which regular expressions every engine reads in the same way, also JavaScript's with the flag `u`; pure."""

import re

_ESCAPE = r"\\[dDwWsStnrfv^$\\.*+?()\[\]{}|/]"
_CLASS_CHAR = r"(?:[^\\\[\]^-]|\\[dDwWsStnrfv^$\\.*+?()\[\]{}|/-])"
_RANGE = r"[A-Za-z0-9]-[A-Za-z0-9]"
_CLASS = rf"\[\^?-?(?:{_RANGE}|{_CLASS_CHAR})+-?\]"
_ATOM = rf"(?:[^\\\[\](){{}}*+?|^$]|{_ESCAPE}|{_CLASS}|\))"
_QUANTIFIER = r"(?:[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})\??"
_UNQUANTIFIED = r"(?:\((?:\?:)?|\||\^|\$)"
_PLAIN = re.compile(rf"(?:{_ATOM}(?:{_QUANTIFIER})?|{_UNQUANTIFIED})*", re.ASCII)
_PART = re.compile(rf"{_ESCAPE}|{_CLASS}|\.", re.ASCII)
_MOST_CHARS = 1_000

_BEGINNING = re.compile(r"\^((?:[A-Za-z0-9_ /:@-](?![*?{]))+)")
"""Characters that each match begins with, if the pattern has no alternatives."""


def plain_pattern(pattern: str) -> str | None:
    """A pattern that matches the same in every engine; None if in doubt."""
    if len(pattern) > _MOST_CHARS or not _PLAIN.fullmatch(pattern):
        return None
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
    # For JavaScript `.` matches fewer characters than elsewhere.
    return _PART.sub(lambda part: r"[^\n]" if part[0] == "." else part[0], pattern)


def may_match(pattern: str, name: str) -> bool:
    """Whether a plain pattern may match the name; it is not tried, which could take long."""
    beginning = None if "|" in pattern else _BEGINNING.match(pattern)
    return beginning is None or name.startswith(beginning[1])
