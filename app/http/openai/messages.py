"""PostedMessage: a message as clients of OpenAI's API post it, and what our messages have of it; pure."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from app.errors import Invalid
from app.http.attachments import posted_attachment
from app.requests.attachments import PART_CHARS
from app.requests.messages import Attachment, ContentPart, TextPart, is_blank_content
from app.runs.requests.attachments import AttachmentRules, unreadable


class Posted(BaseModel):
    """Unknown fields are ignored: every release of the clients adds some."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class PostedImage(Posted):
    """An image by its URL, which may be a data: URL."""

    url: str


class PostedFile(Posted):
    """A file in base64 or by its URL; files are not uploaded over this wire, so none has an id."""

    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class PostedPart(PostedFile):
    """A part of a message: `text`, `image_url`, `file` and others.

    Those of responses begin with `input_`, and have the URL or the file's fields themselves.
    """

    type: str
    text: str | None = None
    image_url: PostedImage | str | None = None
    file: PostedFile | None = None

    @property
    def chars(self) -> int:
        url = self.image_url.url if isinstance(self.image_url, PostedImage) else self.image_url
        data = (self.file and self.file.file_data) or self.file_data
        return PART_CHARS + sum(len(each or "") for each in (self.text, url, data))


class PostedMessage(Posted):
    """A message of the chat; calls of tools are known by the ids in their results."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[PostedPart] | None = None
    tool_call_id: Annotated[str, Field(max_length=300)] | None = None

    @property
    def parts(self) -> Sequence[PostedPart]:
        if isinstance(self.content, str):
            return [PostedPart(type="text", text=self.content)] if self.content else []
        return self.content or ()

    @property
    def text(self) -> str:
        """The texts, joined."""
        return "\n\n".join(part.text for part in self.parts if part.text)

    @property
    def is_system(self) -> bool:
        return self.role in {"system", "developer"}


Fields: TypeAlias = Iterator[tuple[str, ContentPart]]


def content_of(field: str, message: PostedMessage) -> Fields:
    """The parts of a message with their fields; raises `Invalid` naming one that cannot be sent."""
    for number, part in enumerate(message.parts):
        for ours in _content(part, field=f"{field}.{number}"):
            yield f"{field}.{number}", ours


def new_content(field: str, message: PostedMessage, rules: AttachmentRules) -> list[ContentPart]:
    """The content of the message to answer; raises `Invalid` if it has none, or breaks a rule."""
    content = list(content_of(field, message))
    if is_blank_content([part for _, part in content]):
        raise Invalid.field(field, "must hold an attachment or a text that is not blank")
    rules.check((field, part) for field, part in content if not isinstance(part, TextPart))
    return [part for _, part in content]


def readable_content(message: PostedMessage, rules: AttachmentRules) -> list[ContentPart]:
    """The content of an earlier message: a note stands for what cannot be sent, or is not allowed."""
    return [ours for part in message.parts for ours in _readable(part, rules)]


def _readable(part: PostedPart, rules: AttachmentRules) -> Sequence[ContentPart]:
    try:
        content = list(_content(part, field=""))
    except Invalid:
        return [unreadable("file")]
    is_allowed = all(isinstance(each, TextPart) or rules.allow(each) for each in content)
    return content if is_allowed else [unreadable("file")]


def _content(part: PostedPart, *, field: str) -> Iterator[ContentPart]:
    match part:
        case PostedPart(type="text" | "input_text" | "output_text", text=text):
            if text:
                yield TextPart(type="text", text=text)
        case PostedPart(type="image_url" | "input_image", image_url=PostedImage() | str() as image):
            url, of_url = (image, "") if isinstance(image, str) else (image.url, ".url")
            yield posted_attachment(None, url=url, type_of_part="image", field=f"{field}.image_url{of_url}")
        case PostedPart(type="file", file=PostedFile(file_data=str()) as file):
            yield _file(file, field=f"{field}.file.file_data")
        case PostedPart(type="input_file") if part.file_data is not None or part.file_url is not None:
            yield _file(part, field=f"{field}.{'file_url' if part.file_data is None else 'file_data'}")
        case PostedPart(type="refusal"):
            return
        case _:
            wanted = "a text, or an image or file with its data or URL: uploaded ones have no id here"
            raise Invalid.field(f"{field}.type", f"must be {wanted}")


def _file(file: PostedFile, *, field: str) -> Attachment:
    data = file.file_data
    if data is None:
        source: dict[str, Any] = {"url": file.file_url, "type_of_part": "document"}
    else:
        source = {"url" if data.startswith("data:") else "data": data}
    return posted_attachment(None, **source, title=file.filename, field=field)
