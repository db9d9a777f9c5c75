"""The requests that the agent makes: system prompt, tools, messages, marks of the cache; pure.

Whatever comes before the last mark is the same, byte for byte, in the next request of the conversation.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from app.executors.api_format.prompt import attachment_block, joined_prompt, visible_parts, without_system
from app.executors.messages_api.output_format import is_output_format
from app.executors.port import RunPlan
from app.models.registry import ModelOptions, Thinking
from app.models.request_options import taken_effort, takes_task_budget
from app.requests.messages import Message, TextPart
from runtally.tools.tool import definition_of

STRUCTURED_OUTPUT = "StructuredOutput"
"""The tool for answers whose schema the provider's own output format does not take."""

_STRUCTURED_OUTPUT_RULE = (
    "Return your final answer by calling this tool, exactly once, at the end: its arguments are the answer."
)

BEGINNING: Final[Mapping[str, Any]] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "[The conversation begins with a message of the assistant.]"},
    ],
}
"""A note for the model, which clients do not see."""

COMPACTION_BETA = "compact-2026-01-12"
_COMPACTION = "compact_20260112"
_TASK_BUDGET_BETA = "task-budgets-2026-03-13"
COMPACTS_AT_TOKENS = 150_000
"""The length of a prompt from which the provider replaces it by a summary; its own default."""


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What all requests of a run have in common."""

    model: str
    options: ModelOptions
    system: str
    tools: tuple[str, ...]
    """Their definitions, in JSON."""
    output_format: Mapping[str, Any] | None
    """The provider's own format for the structured answer."""
    answers_by_tool: bool
    """Whether the structured answer is the call of a tool."""
    cache_control: Mapping[str, str]

    @classmethod
    def of(cls, plan: RunPlan, messages: Sequence[Message], *, ttl: str) -> "AgentRequest":
        """Those of a run that begins with these messages of a client."""
        shown = plan.schemas.answer
        by_format = shown is not None and not shown.is_wrapped and is_output_format(shown.schema)
        by_tool = shown is not None and not by_format
        tools = [tool.definition for tool in plan.tools]
        if shown is not None and by_tool:
            tools.append(_structured_output(shown.schema))
        return cls(
            model=plan.model,
            options=plan.options,
            system=system_prompt(plan.spec.system_prompt, messages),
            tools=tuple(tools),
            output_format=shown.schema if shown is not None and by_format else None,
            answers_by_tool=by_tool,
            cache_control=cache_control(ttl),
        )

    @property
    def betas(self) -> tuple[str, ...]:
        """The betas of the API that the requests need."""
        return () if self._task_budget is None else (_TASK_BUDGET_BETA,)

    @property
    def _task_budget(self) -> int | None:
        return self.options.task_budget if takes_task_budget(self.model) else None

    def answering_by_tool(self) -> "AgentRequest":
        """The same with the tool instead of the provider's output format, which takes fewer schemas."""
        if self.output_format is None:
            return self
        tools = (*self.tools, _structured_output(self.output_format))
        return replace(self, output_format=None, answers_by_tool=True, tools=tools)

    def text(
        self, messages: Sequence[dict[str, Any]], *, marked: Collection[int], compacts: bool = False
    ) -> str:
        """The request in JSON, see `body`, with the tools: their definitions are not written again."""
        body = {**self.body(messages, marked=marked, compacts=compacts), "stream": True}
        text = _json(body)
        if not self.tools:
            return text
        mark = _json({"cache_control": dict(self.cache_control)})
        return f'{text[:-1]},"tools":[{",".join(self.tools)[:-1]},{mark[1:]}]}}'

    def body(
        self, messages: Sequence[dict[str, Any]], *, marked: Collection[int], compacts: bool = False
    ) -> dict[str, Any]:
        """The request with these messages, without the tools.

        `marked` are the indexes of the messages that end with a mark.
        """
        mark = {"cache_control": dict(self.cache_control)}
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.options.max_output_tokens,
            "system": [{**text_block(self.system), **mark}],
            "messages": [
                _marked(message, mark) if index in marked else message
                for index, message in enumerate(messages)
            ],
        }
        if (thinking := _thinking(self.options.thinking)) is not None:
            body["thinking"] = thinking
        if output := self._output_config():
            body["output_config"] = output
        if compacts:
            trigger = {"type": "input_tokens", "value": COMPACTS_AT_TOKENS}
            edit = {"type": _COMPACTION, "trigger": trigger, "pause_after_compaction": True}
            body["context_management"] = {"edits": [edit]}
        return body

    def _output_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        # Of the model that takes the place of an overloaded one, if it does.
        if (effort := taken_effort(self.model, self.options.effort)) is not None:
            config["effort"] = effort
        if (budget := self._task_budget) is not None:
            config["task_budget"] = {"type": "tokens", "total": budget}
        if self.output_format is not None:
            config["format"] = {"type": "json_schema", "schema": self.output_format}
        return config


def cache_control(ttl: str) -> dict[str, str]:
    """The mark up to which the provider caches a prompt; without a time it keeps it for 5 minutes."""
    return {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}


def system_prompt(graph_prompt: str, messages: Sequence[Message]) -> str:
    """The graph's prompt, extended by the request's system messages."""
    return joined_prompt([graph_prompt, *(each.text for each in messages if each.role == "system")])


def user_blocks(message: Message) -> list[dict[str, Any]]:
    """The content blocks of a client's message; none if it is blank."""
    return [
        text_block(part.text) if isinstance(part, TextPart) else attachment_block(part)
        for part in visible_parts(message)
    ]


def text_block(text: str) -> dict[str, Any]:
    """A content block of text."""
    return {"type": "text", "text": text}


def posted_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages of a request in the API's format, without system messages."""
    turns = without_system(messages)
    posted = [
        {"role": message.role, "content": blocks} for message in turns if (blocks := user_blocks(message))
    ]
    if posted and posted[0]["role"] == "assistant":
        # The API's first message is a user's.
        posted.insert(0, dict(BEGINNING))
    return posted


def end_of_request_before(messages: Sequence[Mapping[str, Any]]) -> int:
    """The index of the message with which the request before ended; -1 if there was none."""
    users = [
        index
        for index, (message, following) in enumerate(pairwise(messages))
        if (message["role"], following["role"]) == ("user", "assistant")
    ]
    return users[-1] if users else -1


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _structured_output(schema: Mapping[str, Any]) -> str:
    return definition_of(STRUCTURED_OUTPUT, _STRUCTURED_OUTPUT_RULE, schema)


def _marked(message: dict[str, Any], mark: Mapping[str, Any]) -> dict[str, Any]:
    *others, last = message["content"]
    if last["type"] in ("thinking", "redacted_thinking"):
        # The API takes no mark on them.
        return message
    return {**message, "content": [*others, {**last, **mark}]}


def _thinking(mode: Thinking) -> dict[str, Any] | None:
    match mode:
        case "disabled":
            return None
        case "adaptive":
            return {"type": "adaptive"}
        case budget_tokens:
            return {"type": "enabled", "budget_tokens": budget_tokens}
