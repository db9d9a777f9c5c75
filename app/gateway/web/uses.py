"""WebUses: how often a run may still use its web tools."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.gateway.answer_usage import MessageUsage
from app.gateway.web.spec import WebSpec
from app.gateway.web.tools import web_tools
from app.ids import MessageId
from app.usage.provider import web_uses
from app.usage.records import Spent, WebTool


@dataclass(frozen=True, slots=True)
class WebUses:
    """The uses of one run so far."""

    spec: WebSpec | None
    messages: Mapping[MessageId, MessageUsage]
    spent: Spent
    """Earlier attempts have used it, too."""
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def granted(self, *, to_subagent: bool) -> AsyncIterator[list[dict[str, Any]]]:
        """The web tools of a call, until it has ended.

        One call at a time has any: each may use up what is left, and how much it has used is known at its
        end only.
        """
        spec = self.spec
        if spec is None or (to_subagent and not spec.subagents):
            yield []
            return
        async with self._one:
            yield web_tools(spec, self._left(spec))

    def _left(self, spec: WebSpec) -> dict[WebTool, int]:
        used = Counter(self.spent.web_uses)
        for message in self.messages.values():
            used.update(web_uses(message.usage, message.reported))
        return {tool: left for tool in spec.tools if (left := spec.max_uses - used[tool]) > 0}
