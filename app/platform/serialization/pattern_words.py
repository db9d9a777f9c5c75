"""What each pattern of our inputs allows, in words."""

from collections.abc import Mapping
from typing import Final

from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN
from app.requests.attribution import ERASED, TAG_NAME
from app.requests.client_tools import CLIENT_TOOL_NAME
from app.requests.run_request import GRAPH_ID_PATTERN

_LINE: Final = r"[^\x00-\x1f\x7f"
_BEGINNING: Final = "letters, digits and ._- that begin with a letter"
_CENTS: Final = "must be cents as an integer without a sign, such as 2500"
_TEXT: Final = "must be text without control characters"
_URL: Final = "must be an http or https URL"

PATTERN_WORDS: Final[Mapping[str, str]] = {
    STATE_KEY_PATTERN: "must be up to 200 letters, digits and ._:@- that begin with a letter, a digit or _",
    RUN_ID_PATTERN: "must be up to 128 letters, digits and ._:- that begin with a letter, a digit or _",
    GRAPH_ID_PATTERN: "must be an executor and a name, such as messages:assistant",
    CLIENT_TOOL_NAME: "must be up to 64 letters, digits, _ and -, and not empty",
    "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$": f"must be up to 100 {_BEGINNING} or a digit",
    "^[A-Za-z0-9*][A-Za-z0-9_.:*-]{0,199}$": "must be up to 200 letters, digits and ._:*- "
    "that begin with a letter, a digit or *",
    f"^{TAG_NAME}$": f"must be up to 64 {_BEGINNING}",
    rf"^{TAG_NAME}:{_LINE}]+$": "must be a name and a value, such as team:search",
    rf"^{_LINE}]+$": f"{_TEXT}, and not empty",
    rf"^{_LINE}{ERASED}]{_LINE}]*$": f"{_TEXT} that does not begin with {ERASED}",
    r"^[^\x00]*$": "must not have the character U+0000",
    r"^[^\x00]+$": "must not be empty, or have the character U+0000",
    r"^[a-z_.]+$": "must be lower-case letters with _ and .",
    r"^[!-~]{8,500}$": "must be 8 to 500 visible ASCII characters",
    r"^[!-~]([ -~]{0,198}[!-~])?$": "must be up to 200 ASCII characters without a space at its ends",
    "^[0-9]{1,12}$": _CENTS,
    "^[1-9][0-9]{0,11}$": f"{_CENTS}, and not zero",
    r"^[0-9]{4}-(0[1-9]|1[0-2])$": "must be a month, such as 2026-12",
    r"^[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$": "must be a release, such as 0.1.2",
    "^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$": "must be a code, such as BCDF-GHJK",
    r"^/(approvals|billing|console|device)?(\?[A-Za-z0-9_.~%=&*+-]{0,1000})?$": "must be a page of ours",
    "^(/[A-Za-z0-9._~-]{1,100}){1,10}$": "must be a path, such as /agents",
    "^https?://": _URL,
    r"^https?://[^\s/?#@]+(/\S*)?$": f"{_URL} without credentials",
}
