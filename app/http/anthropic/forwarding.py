"""ForwardedAnswer: a response whose bytes come from the gateway."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from fastapi import Response

from app.auth.credential_monitor import CredentialRevoked
from app.errors import Unavailable
from app.gateway.client.answer import PassedAnswer
from app.http.middleware import Receive, Scope, Send
from app.platform.server.loopback import DropConnection

Forward: TypeAlias = Callable[[Receive, PassedAnswer], Awaitable[None]]


class CallCutOff(Unavailable):
    """The call was cut off before it was answered; try again."""


class ForwardedAnswer(Response):
    """Sent by this coroutine; a response that was cut off breaks off for the client, too."""

    def __init__(self, forward: Forward, while_valid: AbstractContextManager[None]) -> None:
        super().__init__()
        self._forward, self._while_valid = forward, while_valid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it. Errors before the first byte are answered like those of any route."""
        answer = PassedAnswer(send)
        try:
            with self._while_valid:
                await self._forward(receive, answer)
        except DropConnection as error:
            if answer.is_sent:
                raise
            raise CallCutOff from error
        except CredentialRevoked as error:
            if answer.is_sent:
                raise DropConnection from error
            raise
