"""AskUserQuestion: the tool by which the agent asks a person, of the name and form that the CLI has."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.errors import AppError
from app.events import FROM_AGENT, GivenAnswers, QuestionItem, QuestionOption
from app.executors.port import RunContext, RunPlan
from app.executors.waiting.questions import Questions
from app.requests.blank import require_visible
from app.storable import storable
from runtally.tools.result import ToolResult
from runtally.tools.tool import Tool, ToolContext, ToolFailed

ASK_USER_QUESTION: Final = "AskUserQuestion"
"""Not an id that a tool of ours can have."""

_DESCRIPTION = (
    "Ask the user one to four questions, and wait for the answers. Use it only when you are blocked on a "
    "decision that is the user's to make: one that neither the request nor sensible defaults settle. Users "
    "can always answer with a text of their own, so there is no option for that. Put the option that you "
    "recommend first. The user may see nothing but the questions: each must be understood on its own."
)
_MARGIN_S: Final = 60.0
"""A call ends by its own time limit before the one that holds for every tool."""
_NO_RUN = "No tool is called before there is a run."
_NOT_ASKED = "The questions could not be sent to the user."
_EXPIRED = "The questions were not answered in time."
_DECLINED = "The user declined to answer the questions."
_RUN_STOPPED = "The questions were not answered before the run was stopped."


class _Model(BaseModel):
    # The CLI's form has members for its own dialog: they are left out.
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


_STORABLE = AfterValidator(storable)
_VISIBLE = AfterValidator(require_visible)


class _Option(_Model):
    label: Annotated[
        str, Field(max_length=200, description="What the user selects, in a few words."), _STORABLE, _VISIBLE
    ]
    description: Annotated[str, Field(max_length=2_000), _STORABLE] = ""


class _Question(_Model):
    question: Annotated[
        str, Field(max_length=4_000, description="The complete question."), _STORABLE, _VISIBLE
    ]
    header: Annotated[str, Field(max_length=100, description="A very short label."), _STORABLE] = ""
    options: Annotated[list[_Option], Field(min_length=2, max_length=4, description="Distinct choices.")]
    multi_select: Annotated[bool, Field(description="Whether several options may be chosen.")] = False


def _distinct(questions: list[_Question]) -> list[_Question]:
    if len({each.question for each in questions}) < len(questions):
        raise ValueError("contains a question twice")
    return questions


class _Arguments(_Model):
    questions: Annotated[list[_Question], Field(min_length=1, max_length=4), AfterValidator(_distinct)]


class _Result(BaseModel):
    """Not used: a call returns a `ToolResult`."""


def question_tool(plan_timeout_s: float, questions: Questions | None = None) -> Tool:
    """The tool; without `questions` as the model sees it, without a run that it could be called in."""
    return Tool(
        id=ASK_USER_QUESTION,
        description=_DESCRIPTION,
        effect="read_only",
        input_model=_Arguments,
        output_model=_Result,
        redact=(),
        timeout_s=plan_timeout_s + _MARGIN_S,
        max_result_bytes=100_000,
        handler=partial(_ask, questions),
    )


def with_questions(context: RunContext) -> RunContext:
    """The context whose plan asks the questions of this run, if its graph may ask any."""
    plan = context.plan
    if not plan.spec.questions:
        return context
    tool = question_tool(plan.spec.question_timeout_s, context.control.questions)
    return replace(context, plan=replace(plan, tools=(*without_questions(plan), tool)))


def without_questions(plan: RunPlan) -> tuple[Tool, ...]:
    return tuple(tool for tool in plan.tools if tool.id != ASK_USER_QUESTION)


async def _ask(questions: Questions | None, args: _Arguments, context: ToolContext) -> ToolResult:
    if questions is None:
        raise ToolFailed(_NO_RUN)
    items = [_item(each) for each in args.questions]
    try:
        resolution = await questions.ask(items, source=FROM_AGENT, tool_call_id=context.tool_call_id)
    except AppError:
        return ToolResult.failed(_NOT_ASKED)
    if (reply := resolution.answer) is not None and reply.answers is not None:
        return _answered(items, reply.answers)
    if reply is not None:
        return ToolResult.failed(_DECLINED, "policy_denied")
    if resolution.reason == "expired":
        return ToolResult.failed(_EXPIRED, "timeout")
    return ToolResult.failed(_RUN_STOPPED)


def _item(question: _Question) -> QuestionItem:
    return QuestionItem(
        question=question.question,
        header=question.header or None,
        options=tuple(
            QuestionOption(label=option.label, description=option.description or None)
            for option in question.options
        ),
        multi_select=question.multi_select,
    )


def _answered(items: Sequence[QuestionItem], given: GivenAnswers) -> ToolResult:
    """By question, as the CLI has it, which the model gets in the same words."""
    answers = {
        item.question: ", ".join(texts or ()) or "none of the options"
        for item, texts in zip(items, given, strict=True)
    }
    shown = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
    return ToolResult(f"The user answered: {shown}.", {"answers": {**answers}})
