"""ForwardedAnswer: a response whose bytes come from the gateway."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from fastapi import Response

from app.errors import Unavailable
from app.gateway.client.answer import PassedAnswer
from app.http.middleware import Receive, Scope, Send
from app.platform.background import run_to_completion
from app.platform.server.loopback import DropConnection

Forward: TypeAlias = Callable[[Receive, PassedAnswer], Coroutine[Any, Any, None]]


class CallCutOff(Unavailable):
    """The call was cut off before it was answered; try again."""


class ForwardedAnswer(Response):
    """Sent by this coroutine; a response that was cut off breaks off for the client, too."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self._forward = forward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it. Errors before the first byte are answered like those of any route."""
        answer = PassedAnswer(send)
        # A task of its own: the gateway cancels calls of a run that is stopped.
        forwarding = asyncio.create_task(self._forward(receive, answer))
        try:
            await asyncio.wait({forwarding})
        except asyncio.CancelledError:
            forwarding.cancel()
            await run_to_completion(asyncio.wait({forwarding}))
            raise
        error = DropConnection() if forwarding.cancelled() else forwarding.exception()
        if isinstance(error, DropConnection) and not answer.is_sent:
            raise CallCutOff from error
        if error is not None:
            raise error
