"""UiMessage: a message as chats post it, with what its parts say about tool calls."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from app.executors.client_calls import ClientToolResult
from app.http.ai_sdk.blocks import DISCARDED
from app.requests.attachments import PART_CHARS
from app.runs.chats import MESSAGE_ID_CHARS
from app.runs.commands.records import Decide

MOST_ANSWERED = 1_000
"""So many tool calls of a message may have a decision, and so many a result of the client."""

_REASON_CHARS = 4_000
_PLACE_OF_PART = 2
"""In the location of an error: its index follows the message's index and `parts`."""
_NO_PART: Final = {"type": "absent"}
"""In the place of a part that is none: parts of an unknown type are ignored."""


class _Posted(BaseModel):
    """Unknown fields are ignored: every release of the SDK adds some."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class UiApproval(_Posted):
    """A person's decision on a `tool-approval-request`."""

    id: str
    approved: Annotated[bool, Field(strict=True)] | None = None
    reason: str | None = None


class UiPart(_Posted):
    """A part of a message: `text`, `file`, `tool-…` and others."""

    type: str
    text: str | None = None
    url: str | None = None
    media_type: str | None = None
    filename: str | None = None
    state: str | None = None
    approval: UiApproval | None = None
    tool_call_id: str | None = None
    provider_executed: Annotated[bool, Field(strict=True)] | None = None
    output: JsonValue = None
    error_text: str | None = None
    provider_metadata: JsonValue = None

    @property
    def is_discarded(self) -> bool:
        """Whether it is the beginning of a message that the model has written again."""
        return self.provider_metadata == DISCARDED

    @property
    def chars(self) -> int:
        """About how many characters it has, as far as a request contains them."""
        return PART_CHARS + len(self.text or "") + len(self.url or "")

    @property
    def is_decided(self) -> bool:
        """Whether it has a person's decision that the run may not have received yet."""
        return self.approval is not None and self.state == "approval-responded"

    @property
    def tool_result(self) -> ClientToolResult | None:
        """The result of a call that the client has executed, if this is one."""
        if self.tool_call_id is None or self.provider_executed:
            return None
        match self.state:
            case "output-available":
                return ClientToolResult(self.output)
            case "output-error":
                return ClientToolResult(self.error_text or "The tool failed.", is_error=True)
            case _:
                return None


class UiMessage(_Posted):
    """A `UIMessage`."""

    id: Annotated[str, Field(min_length=1, max_length=MESSAGE_ID_CHARS)]
    role: Literal["system", "user", "assistant"]
    parts: list[UiPart]

    @cached_property
    def decisions(self) -> list[Decide]:
        """The person's decisions in this message that the run may not have received yet, one per request."""
        found: dict[str, Decide] = {}
        for part in self.parts:
            if part.is_decided and (approval := part.approval) is not None:
                decided = Decide(
                    request_id=approval.id,
                    decision="allow" if approval.approved else "deny",
                    message=(approval.reason or "")[:_REASON_CHARS] or None,
                )
                found.setdefault(approval.id, decided)
        return list(found.values())

    @cached_property
    def tool_results(self) -> dict[str, ClientToolResult]:
        found = ((part.tool_call_id, part.tool_result) for part in self.parts)
        return {call_id: result for call_id, result in found if call_id is not None and result is not None}


def read_leniently(messages: Any, validate: Callable[[Any], list[UiMessage]]) -> list[UiMessage]:
    """The posted messages; raises `ValidationError` for the last one, or for a form that no chat has.

    What is of a wrong type in a part of an earlier message counts as absent, and so does a part that is none:
    it must not end the chat.
    """
    try:
        return validate(messages)
    except ValidationError as error:
        wrong = [
            each["loc"]
            for each in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        return validate(_without(messages, [loc for loc in wrong if _is_in_part_of_earlier(loc, messages)]))


def _is_in_part_of_earlier(loc: Sequence[int | str], messages: Any) -> bool:
    return len(loc) > _PLACE_OF_PART and isinstance(loc[0], int) and loc[0] < len(messages) - 1


def _without(messages: Any, wrong: Sequence[Sequence[Any]]) -> Any:
    """The messages without these parts, and without these fields of their parts."""
    if not wrong:
        return messages
    kept = list(messages)
    for index in {loc[0] for loc in wrong}:
        kept[index] = {**kept[index], "parts": list(kept[index]["parts"])}
    for index, _, part, *field in wrong:
        parts = kept[index]["parts"]
        if field and field[0] != "type":
            parts[part] = {key: value for key, value in parts[part].items() if key != field[0]}
        else:
            parts[part] = _NO_PART
    return kept
