"""WebUses: how often a run may still use its web tools."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from app.gateway.answer_usage import MessageUsage
from app.gateway.web.spec import WebSpec
from app.gateway.web.tools import web_tools
from app.ids import MessageId
from app.usage.provider import web_uses
from app.usage.records import Spent, WebTool

_WAIT_S: Final = 20.0
"""How long a call waits for others to end that may use up the rest; agents wait a minute for an answer."""

_SHARES: Final = 4
"""Where subagents have the tools, a call may use such a part of all uses: others work at the same time."""


@dataclass(slots=True)
class WebUses:
    """The uses of one run: those of its messages, and those that current calls may make."""

    spec: WebSpec | None
    messages: Mapping[MessageId, MessageUsage]
    spent: Spent
    """Earlier attempts have used it, too."""
    _granted: Counter[WebTool] = field(default_factory=Counter)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def granted(self, *, to_subagent: bool) -> AsyncIterator[list[dict[str, Any]]]:
        """The web tools of a call; until it has ended no other call gets these uses."""
        spec = self.spec
        if spec is None or (to_subagent and not spec.subagents):
            yield []
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wait_while_contended(spec), _WAIT_S)
        most = math.ceil(spec.max_uses / _SHARES) if spec.subagents else spec.max_uses
        granted = {tool: min(free, most) for tool, free in self._free(spec).items() if free > 0}
        self._granted.update(granted)
        try:
            yield web_tools(spec, granted)
        finally:
            self._granted.subtract(granted)
            self._released.set()
            self._released = asyncio.Event()

    async def _wait_while_contended(self, spec: WebSpec) -> None:
        """Wait while current calls may use up a tool, but have not yet."""
        while any(free <= 0 < free + self._granted[tool] for tool, free in self._free(spec).items()):
            await self._released.wait()

    def _free(self, spec: WebSpec) -> dict[WebTool, int]:
        """The uses that are left and not granted."""
        used = Counter(self.spent.web_uses)
        used.update(self._granted)
        for message in self.messages.values():
            used.update(web_uses(message.usage, message.reported))
        return {tool: spec.max_uses - used[tool] for tool in spec.tools}
