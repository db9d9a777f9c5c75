"""WebUses: how often a run may still use its web tools."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    """The uses of one run: those of its messages, and those that its current calls may still make."""

    spec: WebSpec | None
    messages: Mapping[MessageId, MessageUsage]
    spent: Spent
    """Earlier attempts have used it, too."""
    _granted: Counter[WebTool] = field(default_factory=Counter)

    @contextmanager
    def granted(self, *, to_subagent: bool) -> Iterator[list[dict[str, Any]]]:
        """The web tools of a call; until it has ended no other call gets what it may use."""
        spec = self.spec
        if spec is None or (to_subagent and not spec.subagents):
            yield []
            return
        left = self._left(spec)
        self._granted.update(left)
        try:
            yield web_tools(spec, left)
        finally:
            self._granted.subtract(left)

    def _left(self, spec: WebSpec) -> dict[WebTool, int]:
        used = Counter(self.spent.web_uses)
        used.update(self._granted)
        for message in self.messages.values():
            used.update(web_uses(message.usage, message.reported))
        return {tool: left for tool in spec.tools if (left := spec.max_uses - used[tool]) > 0}
