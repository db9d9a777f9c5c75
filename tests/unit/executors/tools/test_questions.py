from typing import Any

import pytest

from app.executors.tools.questions import question_tool, without_questions
from tests.factories import a_plan
from tests.unit.tools.calling import a_tool, call

OPTIONS = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
COLOR = {"question": "Which color?", "header": "Color", "options": OPTIONS, "multiSelect": False}


def test_the_model_gets_the_form_that_it_knows() -> None:
    tool = question_tool(5)
    (question,) = [each for name, each in tool.input_schema["$defs"].items() if name.endswith("Question")]

    assert tool.id == "AskUserQuestion"
    assert set(question["properties"]) == {"question", "header", "options", "multiSelect"}
    assert tool.input_schema["properties"]["questions"]["maxItems"] == 4
    assert tool.timeout_s > 5
    plan = a_plan(tools=(tool, other := a_tool("a__b")))
    assert without_questions(plan) == (other,)


@pytest.mark.parametrize(
    ("questions", "problem"),
    [
        ([], "questions: must have at least 1 item"),
        ([COLOR] * 5, "questions: must have at most 4 items"),
        ([COLOR, COLOR], "questions: contains a question twice"),
        ([{**COLOR, "options": OPTIONS[:1]}], "questions.0.options: must have at least 2 items"),
        ([{**COLOR, "question": " "}], "questions.0.question: must not be blank"),
        (
            [{**COLOR, "options": [OPTIONS[0], {"label": "x" * 201}]}],
            "questions.0.options.1.label: must have at most 200 characters",
        ),
    ],
)
async def test_a_form_that_nobody_could_answer_is_refused(questions: list[Any], problem: str) -> None:
    result = await call(question_tool(5), {"questions": questions})

    assert result.code == "invalid_args"
    assert result.markdown.startswith(f"The arguments are not valid. {problem}")
    assert ";" not in result.markdown


async def test_nobody_is_asked_before_there_is_a_run() -> None:
    asked = {"questions": [{**COLOR, "preview": "x"}], "answers": {"Which color?": "Red"}}

    assert (await call(question_tool(5), asked)).markdown == "No tool is called before there is a run."
