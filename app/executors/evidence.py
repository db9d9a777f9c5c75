"""RunEvidence: what an attempt of a run did, for operators; clients never get it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from app.events import ResolvedBy
from app.graphs.rules.spec import ToolRule
from app.platform.serialization.stored_json import dump_json
from app.requests.run_request import PermissionMode

EvidenceType = Literal["prompt_rendered", "agent_announced", "call_decided", "cut_off"]


class RunEvidence(NamedTuple):
    """One piece; `content` is a JSON object."""

    type: EvidenceType
    content: str


AddEvidence: TypeAlias = Callable[[RunEvidence], None]


def keep_none(_: RunEvidence) -> None:
    """Keep no evidence."""


_ANNOUNCED: Final = (
    *("model", "tools", "agents", "skills", "slash_commands", "output_style"),
    *("permissionMode", "apiKeySource", "claude_code_version", "fast_mode_state"),
)
"""What an agent's program says about itself; the rest are ids and paths of this machine."""


def agent_announced(init: Mapping[str, Any]) -> RunEvidence:
    """The capabilities that an agent's program announces when a turn begins."""
    named = {
        kind: [_name_and_status(each) for each in init.get(kind, ())] for kind in ("mcp_servers", "plugins")
    }
    return RunEvidence(
        "agent_announced", dump_json({name: init[name] for name in _ANNOUNCED if name in init} | named)
    )


def _name_and_status(announced: Any) -> Any:
    if not isinstance(announced, Mapping):
        return announced
    return {name: announced[name] for name in ("name", "status") if name in announced}


@dataclass(slots=True)
class CallDecision:
    """What decides whether a tool call is executed, as it becomes known."""

    tool_call_id: str
    tool_name: str
    mode: PermissionMode
    args: object
    """Those of the model, and those of a person where they replace them."""
    rule: ToolRule | None = None
    """The first rule that matches; None: the mode alone decides."""
    request_id: str | None = None
    """The approval that was requested for it."""
    reason: ResolvedBy | None = None
    """Why that waits no longer; `granted`: it was not requested, because the conversation allows the tool."""
    decision: Literal["allow", "deny"] | None = None
    """None: the run ended or was parked first."""
    message: str | None = None
    """What the model gets instead of a result."""

    def evidence(self) -> RunEvidence:
        """The piece of evidence about it."""
        rule = None if self.rule is None else self.rule.model_dump(mode="json", exclude_defaults=True)
        content = {
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "permissionMode": self.mode,
            "args": self.args,
            "rule": rule,
            "requestId": self.request_id,
            "reason": self.reason,
            "decision": self.decision,
            "message": self.message,
        }
        return RunEvidence("call_decided", dump_json(content))
