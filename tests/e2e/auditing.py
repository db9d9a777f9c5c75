"""An operator's package: hooks that keep what they get, credentials, and a tool that needs one."""

from typing import Any

from pydantic import BaseModel

from runtally import HookContext, Hooks, SessionResult, ToolCall, ToolContext, ToolResult, tool

POST = "mcp__runtally__post__send"
TOKEN = "tok_A1b2C3d4E5f6G7h8"
heard: list[tuple[Any, ...]] = []


class Audit(Hooks):
    """Keeps everything, and denies what goes to Eve and what removes files."""

    async def session_start(self, context: HookContext) -> None:
        heard.append(("session_start", context))

    async def session_end(self, context: HookContext, result: SessionResult) -> None:
        heard.append(("session_end", context, result))

    async def before_tool(self, context: HookContext, call: ToolCall) -> str | None:
        heard.append(("before_tool", context, call))
        if call.arguments.get("to") == "eve" or "rm " in call.arguments.get("command", ""):
            return "The audit denies this."
        call.arguments.clear()
        return None

    async def after_tool(self, context: HookContext, call: ToolCall, result: ToolResult) -> None:
        heard.append(("after_tool", context, call, result))


class Broken(Hooks):
    """Fails in every method."""

    async def session_start(self, _context: HookContext) -> None:
        raise RuntimeError("no audit today")

    async def session_end(self, _context: HookContext, _result: SessionResult) -> None:
        raise SystemExit(1)

    async def before_tool(self, _context: HookContext, _call: ToolCall) -> str | None:
        raise RuntimeError("no audit today")

    async def after_tool(self, _context: HookContext, _call: ToolCall, _result: ToolResult) -> None:
        raise RuntimeError("no audit today")


async def vault(context: HookContext, *, tool_id: str, name: str) -> str | None:
    """The credentials of all accounts."""
    heard.append(("credential", context, tool_id, name))
    return TOKEN if (tool_id, name) == ("post__send", "post") else None


class Letter(BaseModel):
    to: str


@tool(id="post__send", description="Send a letter.", effect="external_side_effect")
async def send(args: Letter, context: ToolContext) -> str:
    token = await context.credential("post")
    return f"Sent to {args.to} with {token.get_secret_value()}."


def heard_of(method: str) -> list[Any]:
    """What a method got besides its context: one thing, or several."""
    found = [each[2:] for each in heard if each[0] == method]
    return [each[0] if len(each) == 1 else each for each in found]
