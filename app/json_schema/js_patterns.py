"""Which regular expressions every engine reads in the same way, also JavaScript's with the flag `u`; pure."""

import re

_ESCAPE = r"\\[dDwWsStnrfv^$\\.*+?()\[\]{}|/]"
_CLASS_CHAR = r"(?:[^\\\[\]^-]|\\[dDwWsStnrfv^$\\.*+?()\[\]{}|/-])"
_RANGE = r"[A-Za-z0-9]-[A-Za-z0-9]"
_CLASS = rf"\[\^?-?(?:{_RANGE}|{_CLASS_CHAR})+-?\]"
_ATOM = rf"(?:[^\\\[\](){{}}*+?|^$]|{_ESCAPE}|{_CLASS}|\))"
_QUANTIFIER = r"(?:[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})\??"
_UNQUANTIFIED = r"(?:\((?:\?:)?|\||\^|\$|\\[bB])"
_PLAIN = re.compile(rf"(?:{_ATOM}(?:{_QUANTIFIER})?|{_UNQUANTIFIED})*", re.ASCII)
_MOST_CHARS = 1_000


def is_plain(pattern: str) -> bool:
    """Whether it consists of parts that have one meaning everywhere; False if in doubt."""
    if len(pattern) > _MOST_CHARS or not _PLAIN.fullmatch(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
