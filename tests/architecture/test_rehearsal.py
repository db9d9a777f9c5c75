"""`python -m tests.rehearsal`: what it installs, collects, compares and runs."""

import ast
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.architecture.tree import ROOT
from tests.rehearsal.__main__ import facts_of
from tests.rehearsal.comparison import ABSENT, Difference, differences
from tests.rehearsal.environment import LOCK, without_candidates
from tests.rehearsal.facts import Fact, Value, dumps, loads, names
from tests.rehearsal.suite import CONTRACTS, contracts_of
from tests.rehearsal.vendor_names import DISTRIBUTIONS, used_names


def test_imported_names_and_attributes_of_imported_modules_are_found() -> None:
    source = """
        import os
        import anthropic
        from claude_agent_sdk.types import HookEvent as Event
        from mcp import types

        def made(event: Event) -> types.Tool:
            return os.path, anthropic.AsyncAnthropic
    """

    assert set(used_names(ast.parse(dedent(source)))) == {
        ("claude_agent_sdk.types", "HookEvent"),
        ("mcp", "types"),
        ("mcp.types", "Tool"),
        ("anthropic", "AsyncAnthropic"),
    }


def test_a_candidate_takes_the_place_of_its_pin_and_of_nothing_else() -> None:
    kept = "anthropic==1 \\\n    --hash=sha256:a\nmcp-types==2 ; x \\\n    --hash=sha256:b\n"
    lock = f"{kept}mcp==2 \\\n    --hash=sha256:c\n"

    assert without_candidates(lock, [Requirement("MCP==3")]) == kept
    assert without_candidates(lock, []) == lock


def test_every_package_that_can_be_rehearsed_is_locked() -> None:
    lock = LOCK.read_text("utf-8")

    assert set(CONTRACTS) == set(DISTRIBUTIONS.values())
    assert [name for name in CONTRACTS if without_candidates(lock, [Requirement(name)]) == lock] == []


def test_every_test_of_the_contract_suite_is_there() -> None:
    tests = contracts_of(CONTRACTS)

    assert [test for test in tests if not Path(ROOT / test).exists()] == []
    assert len(tests) == len(set(tests))


PRICE = Fact("models", "claude-a-1", {"input": "3", "output": "15"}, "app/prices.py")


def fact(value: Value, **fields: Any) -> Fact:
    return Fact(
        **{"topic": "models", "name": "claude-a-1", "used_by": "app/prices.py", **fields}, value=value
    )


def shown(old: Value, new: Value) -> list[tuple[str, str, str]]:
    return [(row.name, row.old, row.new) for row in differences([fact(old)], [fact(new)])]


def test_a_part_that_differs_is_a_row_with_what_depends_on_it() -> None:
    assert differences([PRICE], [fact({"input": "4", "output": "15"})]) == [
        Difference("models", "claude-a-1: input", "3", "4", "app/prices.py")
    ]


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("1", "2", [("claude-a-1", "1", "2")]),
        (names("ab"), names("bc"), [("claude-a-1: a", "yes", ABSENT), ("claude-a-1: c", ABSENT, "yes")]),
        ({"b": "1", "a": "2"}, {"a": "2", "b": "1"}, []),
        ("1", {"a": "2"}, [("claude-a-1", "1", "a: 2")]),
        ({}, {"a": "2"}, [("claude-a-1: a", ABSENT, "2")]),
    ],
)
def test_texts_are_compared_as_wholes_and_parts_by_their_names(
    old: Value, new: Value, rows: list[tuple[str, str, str]]
) -> None:
    assert shown(old, new) == rows


def test_what_is_only_in_one_environment_is_one_row() -> None:
    many = fact(names("abcdefgh"), name="claude-b-1")

    assert differences([PRICE], []) == [
        Difference("models", "claude-a-1", "input: 3, output: 15", ABSENT, "app/prices.py")
    ]
    (row,) = differences([PRICE], [PRICE, many])
    assert (row.old, row.new) == (ABSENT, "a, b, c, d, e, f, … 8 in all")


def test_of_long_texts_only_what_surrounds_the_first_difference_is_shown() -> None:
    ((_, old, new),) = shown("x" * 500 + "old" + "y" * 500, "x" * 500 + "new" + "y" * 500)

    assert (old[:24], new[:24]) == ("…" + "x" * 20 + "old", "…" + "x" * 20 + "new")
    assert max(len(old), len(new)) < 130
    assert old.endswith("…")


def test_what_differs_in_the_same_way_in_two_topics_is_one_row_among_those_of_its_topic() -> None:
    old = [fact("1", topic=topic, name=name) for topic in ("lean", "full") for name in ("version", topic)]
    new = [fact("2", topic=topic, name=name) for topic in ("lean", "full") for name in ("version", topic)]

    assert [(row.topic, row.name) for row in differences(old, new)] == [
        ("lean and full", "version"),
        ("lean", "lean"),
        ("full", "full"),
    ]


def test_facts_survive_the_way_from_one_environment_to_the_other() -> None:
    facts = [PRICE, fact("two\nlines, and é")]

    assert loads(dumps(facts)) == facts


@pytest.mark.long
def test_all_facts_of_this_environment_can_be_collected(tmp_path: Path) -> None:
    facts = {(fact.topic, fact.name): fact for fact in facts_of(sys.executable, tmp_path / "facts.json")}

    assert [fact for (topic, _), fact in facts.items() if topic == "not collected"] == []
    assert {topic for topic, _ in facts} == {
        *("packages", *DISTRIBUTIONS.values(), "list prices"),
        *("CLI, program", "CLI, lean mode", "CLI, full mode", "CLI, failures", "CLI, models"),
    }
    options = facts["claude-agent-sdk", "claude_agent_sdk.ClaudeAgentOptions"]
    assert isinstance(options.value, dict)
    assert options.value["verbatim_prompts"].startswith("bool = ")
    assert options.used_by.startswith("app/executors/claude_agent/")
    (hooks, tools) = (facts["CLI, full mode", name].value for name in ("hook", "tool"))
    assert "PreToolUse: tool_use_id" in hooks
    assert {"Agent", "Bash", "mcp__runtally__demo__weather"} <= set(tools)
