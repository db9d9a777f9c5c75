"""ServerStopping, and what streams that are cut short say; pure."""

import random

from app.errors import Unavailable

_RETRY_MS = (500, 3000)
"""When clients reconnect: not all in the same moment."""


class ServerStopping(Unavailable):
    """This server is stopping: the run continues; get its result with a new request."""

    code = "shutting_down"


def retry_line() -> bytes:
    """The last line of a stream that was cut short, for clients that reconnect by themselves."""
    return f"retry: {random.randint(*_RETRY_MS)}\n".encode()  # noqa: S311 - no secret
