"""An attachment is the same on every wire, for both executors, or is refused on all of them."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from pydantic import ValidationError

from app.errors import Invalid
from app.executors.claude_agent.prompt import content_blocks
from app.executors.messages_api.request import posted_messages
from app.http.ag_ui.input import AgUiInput, chat_message
from app.http.ai_sdk.input import ChatRequest
from app.http.field_errors import field_errors
from app.http.openai.chat.input import ChatCompletionRequest
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.requests.attachments import DEFAULT_RULES
from tests.media import CONTENTS, PAIRS, b64, sent_block

GRAPH: Final = "messages:assistant"
LOOK: Final = {"type": "text", "text": "Look."}
HELLO: Final = {"role": "assistant", "content": ""}

Part = dict[str, Any]
Post = Callable[[Part], list[Message]]


def natively(part: Part) -> list[Message]:
    body = {"graphId": GRAPH, "messages": [HELLO, {"role": "user", "content": [LOOK, part]}]}
    try:
        return GraphRunRequest.model_validate(body).messages
    except ValidationError as error:
        details: list[Any] = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        found = field_errors(details, body)
        raise Invalid(found[0].message, errors=found) from error


def of_the_ai_sdk(part: Part) -> list[Message]:
    message = {"id": "u", "role": "user", "parts": [LOOK, {"type": "file", **part}]}
    answer = {"id": "a", "role": "assistant", "parts": [None, {"type": "text", "text": ""}]}
    chat = ChatRequest.model_validate({"id": "c", "messages": [answer, message]}).chat_message(GRAPH)
    return chat.build_request(0, with_history=True).messages


def of_ag_ui(part: Part) -> list[Message]:
    messages = [{"id": "a", **HELLO}, {"id": "u", "role": "user", "content": [LOOK, part]}]
    given = AgUiInput.parse({"threadId": "t", "runId": "r", "messages": messages})
    return chat_message(GRAPH, given, given.messages).build_request(0, with_history=True).messages


def of_openai(part: Part) -> list[Message]:
    """Its parts have no media type of their own: where they are not a data: URL, the bytes count."""
    messages = [HELLO, {"role": "user", "content": [LOOK, part]}]
    posted = ChatCompletionRequest.model_validate({"model": GRAPH, "messages": messages})
    chat = posted.chat_message("c", tools=(), rules=DEFAULT_RULES)
    return chat.build_request(0, with_history=True).messages


def parts_of_all_wires(label: str, content: bytes, *, is_image: bool) -> list[tuple[Post, Part, str]]:
    """How each wire posts an attachment, and the field that it names if it is refused."""
    data, kind = b64(content), "image" if is_image else "document"
    url = f"data:{label};base64,{data}"
    lines = "\r\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    field = "messages.1.content.1"
    source = {"type": "data", "value": lines, "mimeType": label}
    in_a_file = (of_openai, {"type": "file", "file": {"file_data": url}}, f"{field}.file.file_data")
    in_an_image = (of_openai, {"type": "image_url", "image_url": {"url": url}}, f"{field}.image_url.url")
    return [
        (natively, {"type": kind, "mediaType": label, "data": lines}, f"{field}.data"),
        (of_the_ai_sdk, {"mediaType": label, "url": f"data:;base64,{lines}"}, "messages.1.parts.1.url"),
        (of_ag_ui, {"type": kind, "source": source}, field),
        (of_ag_ui, {"type": kind, "source": {"type": "url", "value": url, "mimeType": label}}, field),
        (of_ag_ui, {"type": "binary", "mimeType": label, "data": data.rstrip("=")}, field),
        (of_ag_ui, {"type": "binary", "mimeType": label, "url": url}, field),
        in_a_file if not is_image else in_an_image,
    ]


def seen_by_both(messages: list[Message]) -> tuple[list[Part], list[Part]]:
    return posted_messages(messages)[-1]["content"], content_blocks(messages)


@pytest.mark.parametrize(("says", "label", "name"), PAIRS)
def test_each_label_with_each_content(says: str, label: str, name: str) -> None:
    content, expected = CONTENTS[name], sent_block(says, name)
    is_image = says == "image" or (not says and (content.kind or "").startswith("image/"))

    for post, part, field in parts_of_all_wires(label, content.data, is_image=is_image):
        if expected is not None:
            assert seen_by_both(post(part)) == ([LOOK, expected], [LOOK, expected]), part
            continue
        with pytest.raises(Invalid) as refused:
            post(part)
        assert [error.field for error in refused.value.errors] == [field], part
