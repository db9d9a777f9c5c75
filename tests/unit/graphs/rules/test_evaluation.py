"""The first rule that matches a call decides about it, and what cannot be decided is denied."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.graphs.rules.evaluation import UNDECIDED, CallRules, Conditions
from app.graphs.rules.spec import Action, ToolRule
from app.platform.json_schema.checker import SchemaChecker
from runtally.tools.tool import Effect

FACTS: dict[str, dict[str, Any]] = {"run": {"attempt": 0, "conversation": ""}, "account": {"id": "acme"}}
LONG = {"text": "a" * 3_500_000, "wanted": ["ab"] * 9_000}


@pytest.fixture
async def conditions() -> AsyncIterator[Conditions]:
    async with SchemaChecker(workers=1, check_s=0.5) as checker:
        yield Conditions(checker.pool)


def rules(*given: tuple[str, str | None, Action], of: Conditions | None = None) -> CallRules:
    return CallRules(tuple(ToolRule(tool=tool, when=when, do=do) for tool, when, do in given), of, FACTS)


async def decided(
    found: CallRules, args: Any, tool: str = "office__send", effect: Effect = "state_change"
) -> Any:
    return await found.decide(found.covering(tool, effect), args)


@pytest.mark.parametrize(
    ("tool", "effect", "covered"),
    [
        ("office__send", "state_change", ["office__send", "state_change", "office__*", "*"]),
        ("office__read", "read_only", ["office__*", "*"]),
        ("Bash", "state_change", ["state_change", "*"]),
        ("pick", None, ["*"]),
        ("office__sendmail", "external_side_effect", ["office__*", "*"]),
        ("my_office__send", "read_only", ["*"]),
        ("OFFICE__SEND", "read_only", ["*"]),
    ],
)
def test_a_rule_is_about_a_tool_an_effect_or_a_pattern(tool: str, effect: Any, covered: list[str]) -> None:
    found = rules(*((each, "true", "deny") for each in ("office__send", "state_change", "office__*", "*")))
    assert [rule.tool for rule in found.covering(tool, effect)] == covered


async def test_the_first_rule_that_matches_decides(conditions: Conditions) -> None:
    found = rules(
        ("office__*", "args.to == 'eve'", "deny"),
        ("state_change", "args.to.endsWith('@example.org') && account.id == 'acme'", "allow"),
        ("office__send", None, "ask"),
        ("office__send", "args.never.evaluated", "deny"),
        of=conditions,
    )
    assert await decided(found, {"to": "eve"}) == found.rules[0]
    assert await decided(found, {"to": "bob@example.org"}) == found.rules[1]
    assert await decided(found, {"to": "bob@example.com"}) == found.rules[2]


async def test_a_call_that_no_rule_matches_has_none(conditions: Conditions) -> None:
    found = rules(("office__*", "has(args.to) && args.to == 'eve'", "deny"), of=conditions)
    assert await decided(found, {}) is None
    assert await decided(found, {}, "Bash") is None
    assert await decided(rules(), {}) is None


@pytest.mark.parametrize(
    ("condition", "args"),
    [
        ("args.to == 'eve'", {}),
        ("args.to == 'eve'", ["no", "object"]),
        ("args.to", {"to": "true"}),
        ("args.to + 1 > 2", {"to": "1"}),
        ("args.number / 0 == 1", {"number": 1}),
        ("args.number > 1", {"number": 10**30}),
        ("args.to == 'x'", {"to": "\ud800"}),
        ("args.to.matches('(')", {"to": "x"}),
        ("args.to ==", {"to": "x"}),
        ("args.to.contains('x')", {"to": "y" * 5_000_000}),
        ("args.a.all(a, args.a.all(b, args.a.all(c, a + b + c >= 0)))", {"a": list(range(100))}),
    ],
    ids=[
        *("a missing argument", "no arguments", "no truth", "other types", "division", "a huge number"),
        *("half a character", "no pattern", "no expression", "5 MB", "a million comparisons"),
    ],
)
async def test_what_cannot_be_decided_is_denied(conditions: Conditions, condition: str, args: Any) -> None:
    found = rules(("office__send", condition, "allow"), ("office__send", None, "allow"), of=conditions)
    with capture_logs() as logs:
        decision = await decided(found, args)
    assert decision == UNDECIDED
    (line,) = logs
    assert (line["event"], set(line)) == ("rule.undecided", {"event", "log_level", "reason"})


async def test_a_condition_that_runs_long_is_killed_and_holds_nothing_up(conditions: Conditions) -> None:
    found = rules(("*", "args.wanted.all(each, !args.text.contains(each))", "allow"), of=conditions)
    deciding = asyncio.create_task(decided(found, LONG))
    turns = 0
    while not deciding.done():
        await asyncio.sleep(0.001)
        turns += 1

    assert await deciding == UNDECIDED
    # A loop that was held would have had a handful.
    assert turns > 20
    following = rules(("*", "args.to == 'x'", "ask"), of=conditions)
    assert await decided(following, {"to": "x"}) == following.rules[0]


async def test_a_pattern_that_would_backtrack_is_matched_at_once(conditions: Conditions) -> None:
    found = rules(("*", "args.to.matches('^(a+)+$')", "deny"), of=conditions)
    assert await decided(found, {"to": "a" * 100_000 + "b"}) is None


async def test_without_processes_conditions_deny() -> None:
    assert await decided(rules(("*", "true", "allow")), {}) == UNDECIDED
