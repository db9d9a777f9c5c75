"""What is wrong with a condition is named when a graph loads."""

from typing import Any

import pytest

from app.graphs.rules.conditions import problem_in

ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}}
MAIL: dict[str, Any] = {
    "properties": {
        "to": {"type": "string"},
        "copies": {"type": "array", "items": {"type": "string"}},
        "subject": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "priority": {"type": "integer"},
        "cost": {"type": "number"},
        "urgent": {"type": "boolean"},
        "address": {"$ref": "#/$defs/Address"},
        "reply-to": {"type": "string"},
        "anything": {},
    },
    "$defs": {"Address": ADDRESS},
}


@pytest.mark.parametrize(
    "condition",
    [
        "args.to.endsWith('@example.org')",
        "args.to.lowerAscii() in ['a', 'b'] && args.priority < 3 || !args.urgent",
        *("has(args.subject) && args.subject == 'x'", "args.subject == null"),
        "args.copies.all(each, each.endsWith('@example.org')) && size(args.copies) <= 5",
        *("args.cost > 1.5", "args.address.city == 'Rome'", "args.`reply-to`.matches('^[a-z]+@')"),
        "args.anything.is.not.known == 7",
        "run.attempt == 0 && run.conversation != '' && run.graph.startsWith('messages:')",
        *("account.id == 'x' || account.keyId == 'y' || run.model == 'z' || run.id == ''", "args.urgent"),
        *("'has(args.nothing)' == args.to", "args.priority == 1 ? args.urgent : false"),
    ],
)
def test_nothing_is_wrong_with_a_condition_over_what_there_is(condition: str) -> None:
    assert problem_in(condition, MAIL) is None


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("args.too == 'x'", "there is no args.too; did you mean args.to?"),
        ("args.to == 'x' &&\n  has(args.copy)", "there is no args.copy; did you mean args.copies?"),
        ("args.address.town == 'x'", "there is no args.address.town"),
        ("run.user == 'x'", "there is no run.user; there are run.id, run.graph, run.model"),
        ("true || args.nowhere", "there is no args.nowhere; there are args.to, "),
        ("arguments.to == 'x'", "there is no arguments.to; there are args, run and account"),
        ("args.to.shout() == 'x'", "there is no shout"),
        ("args.to == 1", "== cannot be used with string and int"),
        ("args.priority in ['high']", "in cannot be used with int and list(string)"),
        ("args.subject == 1", "== cannot be used with string and int"),
        ("args.copies.all(each, each > 1)", "> cannot be used with string and int"),
        ("args['to'] == 'x'", "[] cannot be used with object and string"),
        ("args.to", "must be true or false, not string"),
        ("args.to ==", "is not a CEL expression: there is a mistake at character 11 of line 1"),
        ("has('x')", "is not a CEL expression: there is a mistake at character 5 of line 1"),
        ("(" * 200 + "true" + ")" * 200, "is not a CEL expression that can be evaluated"),
        (" ", "is not a CEL expression"),
    ],
)
def test_a_mistake_is_named_in_our_words(condition: str, problem: str) -> None:
    found = problem_in(condition, MAIL)
    assert found is not None
    assert found.startswith(problem)


def test_arguments_of_an_unknown_schema_may_be_anything() -> None:
    assert problem_in("args.one.two == 3", None) is None
    assert problem_in("args.one + 'x' == 3", None) is not None
