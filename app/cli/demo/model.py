"""TourModel: the scripted model of the demo; it recognizes the demo's own graphs by their system prompts."""

import re
from dataclasses import dataclass, field

from app.simulator.demo import CLOCK, DemoModel
from app.simulator.script import ApiRequest, Block, Reply, Text, ToolUse, blocks_of, text_of

STORY = (
    "Once upon a time there was a server that ran agents for everyone who asked. One night its process was "
    "killed in the middle of a sentence. Nothing was lost: the message had been written down before anyone "
    "could read it, another process went on where the first one had stopped, and the bill in the morning was "
    "right to the last token."
)
FILE, SUMMARY = "orders.csv", "total.txt"
_CITY = re.compile(r"favourite city is ([A-Z]\w+)")


@dataclass(frozen=True, slots=True)
class TourModel:
    """Answers runs of the demo's graphs by the script, and all others like `DemoModel`."""

    otherwise: DemoModel = field(default_factory=DemoModel)

    def __call__(self, request: ApiRequest) -> Reply:
        """Answer one request."""
        blocks = _blocks(request)
        return self.otherwise(request) if blocks is None else self.otherwise.reply(request, blocks)


def _blocks(request: ApiRequest) -> list[Block] | None:
    role = re.search(r"You are the (\w+) of the demo", request.system)
    match role and role[1]:
        case "concierge":
            return _concierge(request)
        case "clerk":
            return _clerk(request)
        case "editor":
            return _editor(request)
        case "timekeeper":
            return _timekeeper(request)
        case "storyteller":
            return [Text(STORY)]
    return _remembered(request)


def _concierge(request: ApiRequest) -> list[Block]:
    if request.tool_results:
        return [Text("Your table is reserved.")]
    return [_use(request, "demo__reserve_table", guests=2, time="20:00")]


def _clerk(request: ApiRequest) -> list[Block]:
    match len(_results(request)):
        case 0:
            return [Text("I read the orders. "), ToolUse("Read", {"file_path": f"/workspace/{FILE}"})]
        case 1:
            total = sum(int(number) for number in re.findall(r",(\d+)", _results(request)[0]))
            content = f"Together: {total} USD\n"
            return [ToolUse("Write", {"file_path": f"/workspace/{SUMMARY}", "content": content})]
    return [Text(f"The sum is in {SUMMARY}.")]


def _editor(request: ApiRequest) -> list[Block]:
    if request.tool_results:
        return [Text("My timekeeper has looked it up: see above.")]
    work = {"description": "the time in Delhi", "prompt": "What time is it in Delhi?"}
    return [ToolUse("Agent", {**work, "subagent_type": "timekeeper"})]


def _timekeeper(request: ApiRequest) -> list[Block]:
    if request.tool_results:
        return [Text(_results(request)[-1].splitlines()[0])]
    return [_use(request, CLOCK, timezone="Asia/Kolkata")]


def _remembered(request: ApiRequest) -> list[Block] | None:
    """The answers to the conversation about a city; None for any other."""
    texts = [text_of(message["content"]) for message in request.messages if message["role"] == "user"]
    cities = [city for text in texts for city in _CITY.findall(text)]
    if not cities or not texts[-1].rstrip().endswith((".", "city?")):
        return None
    if texts[-1].rstrip().endswith("city?"):
        return [Text(f"{cities[-1]}, as you have told me.")]
    return [Text(f"{cities[-1]} is beautiful. I will remember it.")]


def _use(request: ApiRequest, tool: str, **arguments: object) -> ToolUse:
    name = next((name for name in request.tool_names if name.endswith(tool)), tool)
    return ToolUse(name, dict(arguments))


def _results(request: ApiRequest) -> list[str]:
    """The results of all tool calls of the run, as text."""
    results = [result for message in request.messages for result in blocks_of(message, "tool_result")]
    return [text_of(result.get("content", "")) for result in results]
