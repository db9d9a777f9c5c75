"""What a person is asked, as a form of the client, and what was filled in, as our commands; pure."""

import json
from typing import Any, Final, TypeAlias

from mcp_types import ElicitResult

from app.events import PermissionRequest, QuestionAsked, QuestionItem
from app.executors.waiting.port import WaitKind
from app.runs.commands.records import AnswerQuestion, Decide

Asked: TypeAlias = PermissionRequest | QuestionAsked
"""What a form can answer. A budget is raised by an amount, which no client is told."""

FORMS: Final[frozenset[WaitKind]] = frozenset({"permission", "question"})
"""The kinds of calls that wait for what a form can answer."""

_APPROVAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "Approve", "description": "Whether the tool may be called."},
        "message": {"type": "string", "title": "Message", "description": "To the agent: why, or why not."},
    },
    "required": ["approved"],
}


def form_of(asked: Asked, *, has_lists: bool) -> dict[str, Any]:
    """The parameters of `elicitation/create`."""
    if isinstance(asked, PermissionRequest):
        arguments = json.dumps(asked.args, ensure_ascii=False, indent=1)
        message, schema = f"May the agent call {asked.tool_name} with {arguments}?", _APPROVAL
    else:
        questions = {str(place): question for place, question in enumerate(asked.questions)}
        message = "\n".join(question.question for question in asked.questions)
        schema = {
            "type": "object",
            "properties": {key: _field(each, has_lists=has_lists) for key, each in questions.items()},
            "required": [key for key, each in questions.items() if not each.optional],
        }
    return {"message": message, "requestedSchema": schema}


def command_of(asked: Asked, given: ElicitResult) -> Decide | AnswerQuestion:
    """What a person has filled in. A form that was dismissed is denied, as one that was declined."""
    content = (given.content or {}) if given.action == "accept" else None
    if isinstance(asked, QuestionAsked):
        answers = None if content is None else {key: _answer(value) for key, value in content.items()}
        return AnswerQuestion(request_id=asked.request_id, answers=answers)
    approved = content is not None and content.get("approved") is True
    message = None if content is None else content.get("message")
    return Decide(
        request_id=asked.request_id,
        decision="allow" if approved else "deny",
        message=message if isinstance(message, str) and message else None,
    )


def _field(question: QuestionItem, *, has_lists: bool) -> dict[str, Any]:
    labels = [option.label for option in question.options]
    shown = {"title": question.header or question.question}
    if question.multi_select and labels and has_lists:
        items = {"type": "string", "enum": labels}
        return {"type": "array", "items": items, **shown, "description": _described(question)}
    if question.only_options and labels:
        return {"type": "string", "enum": labels, **shown, "description": _described(question)}
    return {"type": "string", **shown, "description": _described(question)}


def _described(question: QuestionItem) -> str:
    options = [
        each.label if each.description is None else f"{each.label}: {each.description}"
        for each in question.options
    ]
    return "\n".join([question.question, *options])


def _answer(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return value if isinstance(value, str) else json.dumps(value)
