"""ToolRule: one rule of a graph, as its file has it."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from app.platform.serialization.strict_yaml import StrictModel
from runtally.tools.tool import Effect

Action = Literal["allow", "ask", "deny"]

_PATTERN = re.compile(r"[A-Za-z0-9_*-]{1,100}")


def _is_pattern(tool: str) -> str:
    if not _PATTERN.fullmatch(tool):
        raise ValueError("must be a tool, an effect, or a pattern of letters, digits, _ - and * for any")
    return tool


ToolPattern = Annotated[str, AfterValidator(_is_pattern)]
"""A tool's id, an effect, or a pattern of ids."""


class ToolRule(StrictModel):
    """What happens to calls of some tools, perhaps only with certain arguments."""

    tool: ToolPattern
    when: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    """A CEL expression over `args`, `run` and `account`; None: always."""
    do: Action
    message: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    """What the model reads if the call is denied."""
    stop: Annotated[bool, Field(strict=True)] = False
    """Whether a denied call ends the run."""
    grants: Annotated[bool, Field(strict=True)] = True
    """Whether a person who is asked may allow all later calls of the conversation."""

    @field_validator("message")
    @classmethod
    def _not_of_an_allowed_call(cls, message: str | None, info: ValidationInfo) -> str | None:
        if message is not None and info.data.get("do") == "allow":
            raise ValueError("is only for do: ask or deny")
        return message

    @field_validator("stop")
    @classmethod
    def _only_of_a_denied_call(cls, stop: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's
        if stop and info.data.get("do", "deny") != "deny":
            raise ValueError("is only for do: deny")
        return stop

    @field_validator("grants")
    @classmethod
    def _only_where_a_person_is_asked(cls, grants: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's
        if not grants and info.data.get("do", "ask") != "ask":
            raise ValueError("is only for do: ask")
        return grants

    def covers(self, tool_id: str, effect: Effect | None) -> bool:
        """Whether the rule is about this tool; `effect` is None for one that declares none."""
        return self.tool == effect or fnmatchcase(tool_id, self.tool)
