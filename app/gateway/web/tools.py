"""The web tools of a request: those that the run may use now, whatever the agent has asked for; pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.gateway.estimate import TOOL_RESULT_TOKENS
from app.gateway.web.spec import WebSpec
from app.usage.records import WebTool

# The first versions: they work with every model, and the later ones search and filter by executing code.
_TYPES: Final[Mapping[WebTool, str]] = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
}


_ESCAPED = re.compile(rb"\\u00(?:77|65|62|5[fF])")
"""A letter of `web_`; no program has to write these as escapes."""


def web_tools(spec: WebSpec, left: Mapping[WebTool, int]) -> list[dict[str, Any]]:
    """The definitions of the tools that may be used so often."""
    return [_definition(tool, spec, uses) for tool, uses in left.items()]


def web_tools_at_first(spec: WebSpec | None) -> list[dict[str, Any]]:
    """The definitions in the first request of a run."""
    return [] if spec is None else web_tools(spec, dict.fromkeys(spec.tools, spec.max_uses))


def may_name_web_tools(body: bytes) -> bool:
    """Whether a request may have a web tool: it names one, or has an escape that may hide the name."""
    return b"web_" in body or (b"\\u00" in body and _ESCAPED.search(body) is not None)


def with_web_tools(body: bytes, tools: list[dict[str, Any]]) -> bytes:
    """The request with exactly these web tools; the same bytes if it has no others and needs none."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        # The provider refuses it.
        return body
    if not isinstance(request, dict):
        return body
    asked = request.get("tools")
    others = [each for each in asked if not _is_web_tool(each)] if isinstance(asked, list) else []
    if not tools and others == (asked or []):
        return body
    sent = json.dumps({**request, "tools": [*others, *tools]}, ensure_ascii=False, separators=(",", ":"))
    # Half a character, which only an escape can express, would hide the request from its estimate.
    return sent.encode("utf-8", "replace")


def _definition(tool: WebTool, spec: WebSpec, uses: int) -> dict[str, Any]:
    definition: dict[str, Any] = {"type": _TYPES[tool], "name": tool, "max_uses": uses}
    definition |= {name: list(domains) for name, domains in _domains(spec)}
    if tool == "web_fetch":
        definition |= {"citations": {"enabled": True}, "max_content_tokens": TOOL_RESULT_TOKENS}
    return definition


def _domains(spec: WebSpec) -> Iterator[tuple[str, tuple[str, ...]]]:
    if spec.allowed_domains:
        yield "allowed_domains", spec.allowed_domains
    if spec.blocked_domains:
        yield "blocked_domains", spec.blocked_domains


def _is_web_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and str(tool.get("type", "")).startswith("web_")
