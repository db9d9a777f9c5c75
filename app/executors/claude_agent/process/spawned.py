"""SpawnedProcess: the process that the SDK has started, whose output the SDK leaves open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from claude_agent_sdk import ClaudeSDKClient

_POLL_S: Final = 0.001
"""No program reads the SDK's first request and refuses it in less."""


class SpawnedProcess:
    """Where connecting fails or is cancelled the SDK has forgotten it, so it is noted before."""

    def __init__(self, client: ClaudeSDKClient) -> None:
        self._client = client
        self._process: Any = None

    def note(self) -> None:
        """Remember it, if it is there now."""
        # The version of the SDK is pinned.
        self._process = self._process or getattr(self._client._transport, "_process", None)  # noqa: SLF001

    @asynccontextmanager
    async def noted(self) -> AsyncIterator[None]:
        """Remember it as soon as the body has started it."""
        noting = asyncio.create_task(self._note_when_there())
        try:
            yield
        finally:
            noting.cancel()

    async def close_output(self) -> None:
        """Close its pipes, one of which a program of a tool may keep; waits until it has ended."""
        if self._process is not None:
            await self._process.aclose()

    async def _note_when_there(self) -> None:
        while self._process is None:
            await asyncio.sleep(_POLL_S)
            self.note()
