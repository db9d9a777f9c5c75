"""The end of an answer whose run waits for a person: clients of this wire have only its text; pure.

The next message of the chat continues the run. What it continues is read from the posted answer itself.
"""

import re
from typing import Final, NamedTuple

_HEAD: Final = "[Waiting for a person: "
_TAIL: Final = " Then send any message to go on.]"
_NAMED: Final = re.compile(r"[^\[\]]{1,4000}\?runId=([A-Za-z0-9-]{1,128})#([0-9]{1,9})")


class Notice(NamedTuple):
    """Which run waits, and the position up to which its client has received it."""

    run_id: str
    position: int


def notice(what: str, page: str, waiting: Notice) -> str:
    """The text: what waits, and the page where a person answers it."""
    return f"{_HEAD}{what}. {page}?runId={waiting.run_id}#{waiting.position}{_TAIL}"


def split_notice(text: str) -> tuple[str, Notice | None]:
    """An answer without its notice, and what that says; of text that a model wrote it, too."""
    text = text.rstrip()
    begins = text.rfind(_HEAD)
    if begins < 0 or not text.endswith(_TAIL):
        return text, None
    if (found := _NAMED.fullmatch(text, begins + len(_HEAD), len(text) - len(_TAIL))) is None:
        return text, None
    return text[:begins], Notice(found[1], int(found[2]))
