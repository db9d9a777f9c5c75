"""Checks the rules of a graph when it is loaded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from app.graphs.rules.spec import ToolRule
from app.platform.serialization.strict_yaml import did_you_mean
from runtally.tools.tool import Effect

_EFFECTS: Final = get_args(Effect)


class RuledTool(NamedTuple):
    """What rules know of a tool."""

    effect: Effect | None = None
    schema: Mapping[str, Any] | None = None
    """The JSON schema of its arguments; None if it is known only when the graph runs."""


class RuleProblem(NamedTuple):
    """What is wrong with a key of a rule, which is named by its place in the list."""

    rule: int
    key: str
    problem: str


def rule_problems(
    rules: Sequence[ToolRule], tools: Mapping[str, RuledTool], *, more_tools: bool
) -> Iterator[RuleProblem]:
    """The mistakes in rules of a graph with these tools, by id; `more_tools`: requests may bring others."""
    for index, rule in enumerate(rules):
        covered = [tool for tool_id, tool in tools.items() if rule.covers(tool_id, tool.effect)]
        if not covered and not more_tools and rule.tool not in _EFFECTS:
            hint = did_you_mean(rule.tool, [*tools, *_EFFECTS])
            yield RuleProblem(
                index, "tool", f"{rule.tool!r} is neither a tool of this graph nor an effect{hint}"
            )
        elif rule.when is not None:
            # Only graphs with conditions need the library, which takes 18 MB.
            from app.graphs.rules.conditions import problem_in

            arguments = None if more_tools and "*" in rule.tool else _arguments(covered)
            if (problem := problem_in(rule.when, arguments)) is not None:
                yield RuleProblem(index, "when", problem)


def _arguments(covered: Sequence[RuledTool]) -> Mapping[str, Any] | None:
    """The JSON schema of the arguments of these tools; None if one of them may have any."""
    schemas = [tool.schema for tool in covered if tool.schema is not None]
    if len(schemas) < len(covered) or not schemas:
        return None
    if len(schemas) == 1:
        return schemas[0]
    found: dict[str, Any] = {}
    for schema in schemas:
        for name, each in schema.get("properties", {}).items():
            # A reference is into one document; arguments of different types may be compared with anything.
            found[name] = each if found.get(name, each) == each and "$ref" not in str(each) else {}
    return {"properties": found}
