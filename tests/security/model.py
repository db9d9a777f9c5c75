"""A scripted model that does as it is told, for servers that many stories share.

    python -m tests.security.model

Prints its URL and serves until it is stopped. The last order in the prompt decides: `hang` never
answers, `words 500` says so many words, `letters 500` one word of so many letters, `call TOOL {…}`
calls a tool. Anything else is answered with `ok`. Where an object is wanted, all but `hang` is
answered with the smallest one.
"""

import asyncio
import json
import re

from app.simulator.demo import instance_of
from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse
from app.simulator.server import Simulator

_ORDER = re.compile(r"\b(?:(hang)|words (\d{1,6})|letters (\d{1,9})|call (\w+) (\{.*\}))")


def obedient(request: ApiRequest) -> Reply:
    """Say what the prompt asks for."""
    orders = [] if request.tool_results else _ORDER.findall(request.last_text)
    is_held = bool(orders) and bool(orders[-1][0])
    if not is_held and (schema := _wanted_schema(request)) is not None:
        return Reply([ToolUse("StructuredOutput", instance_of(schema))])
    return _obeyed(*orders[-1]) if orders else Reply([Text("ok")])


def _obeyed(hang: str, words: str, letters: str, tool: str, arguments: str) -> Reply:
    if hang:
        return Reply([Text("Wait.")], hold=Hold(index=2))
    if tool:
        return Reply([ToolUse(tool, json.loads(arguments))])
    return Reply([Text("word " * int(words) if words else "x" * int(letters))])


def _wanted_schema(request: ApiRequest) -> dict[str, object] | None:
    tools = request.body.get("tools", [])
    return next((tool["input_schema"] for tool in tools if tool["name"] == "StructuredOutput"), None)


async def main() -> None:
    """Serve until we are stopped."""
    async with Simulator(obedient) as simulator:
        print(simulator.url, flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
