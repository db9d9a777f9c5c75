"""CallRules: the rules of a run's graph, applied to its tool calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from app.graphs.rules.spec import ToolRule
from app.platform.confined.pool import WorkerEnded, WorkerPool
from app.platform.json_schema.checker import ValueUncheckable, value_as_json
from runtally.tools.tool import Effect

log = structlog.get_logger(__name__)

_HANDLER = Path(__file__).with_name("handler.py")

UNDECIDED: Final = ToolRule(
    tool="*", do="deny", message="Whether this call is allowed could not be decided, so it is denied."
)
"""The rule for a call of which a condition has no answer."""


class ConditionUndecided(Exception):
    """A condition is neither true nor false, or takes too long; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Evaluates conditions in processes that are killed when they take too long."""

    pool: WorkerPool

    async def first_true(
        self, conditions: Sequence[str], values: Mapping[str, Any], *, owner: str
    ) -> int | None:
        """The index of the first condition that is true; raises `ConditionUndecided`.

        A condition after the first true one is not evaluated. `owner` shares the processes with others.
        """
        try:
            request = value_as_json({"conditions": conditions, "values": values})
            verdict, index = await self.pool.call(_HANDLER, request, owner=owner)
        except (ValueUncheckable, WorkerEnded) as error:
            raise ConditionUndecided(str(error)) from error
        except OSError as error:
            raise ConditionUndecided("no process could be started") from error
        if verdict == "undecided":
            raise ConditionUndecided("has no answer for this call")
        return index if verdict == "true" else None


@dataclass(frozen=True, slots=True)
class CallRules:
    """Decides by the first rule that matches a call."""

    rules: tuple[ToolRule, ...] = ()
    conditions: Conditions | None = None
    """None: no rule has a condition."""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`run` and `account` in conditions."""
    owner: str = ""
    """Whose conditions they are."""

    def covering(self, tool_id: str, effect: Effect | None) -> list[ToolRule]:
        """The rules that may decide about calls of a tool: up to the first without a condition."""
        found: list[ToolRule] = []
        for rule in self.rules:
            if rule.covers(tool_id, effect):
                found.append(rule)
                if rule.when is None:
                    break
        return found

    async def decide(self, covering: Sequence[ToolRule], args: Any) -> ToolRule | None:
        """The first of these rules that matches a call with the arguments; None if none does."""
        asked = [rule.when for rule in covering if rule.when is not None]
        if asked:
            try:
                index = await self._first_true(asked, args)
            except ConditionUndecided as error:
                log.warning("rule.undecided", reason=str(error))
                return UNDECIDED
            if index is not None:
                return covering[index]
        # Only the last one may have no condition.
        return covering[-1] if len(asked) < len(covering) else None

    async def _first_true(self, asked: Sequence[str], args: Any) -> int | None:
        if self.conditions is None:
            raise ConditionUndecided("conditions are not evaluated here")
        values = {"args": args, **self.facts}
        return await self.conditions.first_true(asked, values, owner=self.owner)
