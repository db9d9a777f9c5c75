"""CutAnswer: a response that was not streamed and broke off; pure."""

from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from app.gateway.answer_usage import MOST_PARTS, MessageUsage, id_of, model_of
from app.gateway.answers.received import ReceivedContent
from app.gateway.estimate import CallSize
from app.platform.serialization.large_json import count_parts
from app.usage.provider import list_of, object_of
from app.usage.records import ProviderCall, TokenUsage

BROKEN_OFF = "the answer broke off before its usage arrived; its tokens are estimated"


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """What has arrived of a message before its usage, which comes last."""

    message: MessageUsage
    """With estimated usage."""
    content: ReceivedContent
    most_output: int

    def counted(self, *, prompt: int | None, output: int | None) -> MessageUsage:
        """The message with the tokens that the provider has counted, as far as they are not None."""
        usage = self.message.usage
        tokens = min(self.content.tokens(output), self.most_output)
        if prompt is not None:
            usage = TokenUsage(input_tokens=prompt, web_search_requests=usage.web_search_requests)
        return replace(self.message, usage=replace(usage, output_tokens=tokens))


def parse_cut_answer(body: bytes, *, call: ProviderCall, size: CallSize) -> CutAnswer | None:
    """Read a response that broke off; None if no message had begun.

    What it says of its usage is not read: its last number may be cut off.
    """
    answer = _parsed(body)
    if answer.get("type") != "message":
        return None
    content = ReceivedContent()
    for block in list_of(answer.get("content")):
        content.start_block(object_of(block), 0)
    message = MessageUsage(
        message_id=id_of(answer, call),
        model=model_of(answer, {}),
        usage=replace(size.estimate, web_search_requests=content.searches),
        complete=False,
        call=call,
        output_estimated=True,
        note=BROKEN_OFF,
    )
    cut = CutAnswer(message, content, size.maximum.output_tokens)
    return replace(cut, message=cut.counted(prompt=None, output=None))


def _parsed(body: bytes) -> Any:
    if count_parts(body) > MOST_PARTS:
        return {}
    try:
        return object_of(from_json(body, allow_partial="trailing-strings"))
    except ValueError:
        return {}
