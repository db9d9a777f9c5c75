"""The messages of a request: texts, images and documents."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from app.requests.attachments import (
    IMAGE,
    MAX_TITLE_CHARS,
    PART_CHARS,
    Kind,
    document_data,
    document_text,
    image_data,
    image_type,
    kind_of,
    require_one_source,
    require_url,
    size_of_base64,
)
from app.requests.blank import blank_error, is_blank
from app.requests.wire_models import InputModel

Priority = Literal["now", "next", "later"]
"""When a running agent gets a message: at once, interrupting its output; at the next opportunity; or
in a turn of its own."""

BASE64: dict[str, Any] = {"format": "byte", "contentEncoding": "base64"}
"""What the OpenAPI document says of a text in base64."""

_Data = Annotated[str, Field(json_schema_extra={**BASE64, "minLength": 4})]
_Url = Annotated[str, AfterValidator(require_url), Field(json_schema_extra={"format": "uri"})]


class TextPart(InputModel):
    """A piece of text."""

    type: Literal["text"]
    text: str

    @property
    def chars(self) -> int:
        """Its length."""
        return len(self.text)


class ImagePart(InputModel):
    """An image: base64 encoded, or by a URL that only the provider opens."""

    type: Literal["image"]
    data: Annotated[_Data, AfterValidator(image_data)] | None = None
    media_type: Annotated[str | None, Field(validate_default=True)] = None
    """That of its bytes, whatever was given; None by URL."""
    url: _Url | None = None

    @field_validator("media_type")
    @classmethod
    def _is_of_its_bytes(cls, media_type: str | None, info: ValidationInfo) -> str | None:
        if (data := info.data.get("data")) is not None:
            return image_type(data)
        if kind_of(media_type) not in (IMAGE, None):
            raise ValueError("must be that of an image")
        return None

    @model_validator(mode="after")
    def _is_one(self) -> "ImagePart":
        require_one_source(IMAGE, data=self.data, url=self.url)
        return self

    @property
    def chars(self) -> int:
        """The length of its content in a request."""
        return len(self.data or "")

    @property
    def size(self) -> int:
        """The number of bytes; 0 of one by URL."""
        return size_of_base64(self.data or "")


class DocumentPart(InputModel):
    """A PDF or a text: base64 encoded, as `text`, or a PDF by its URL."""

    type: Literal["document"]
    media_type: str | None = None
    """That of a PDF or of a plain text; None if the bytes alone say what it is."""
    data: _Data | None = None
    text: Annotated[str, Field(min_length=1)] | None = None
    url: _Url | None = None
    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)] | None = None

    @field_validator("media_type")
    @classmethod
    def _is_a_documents(cls, media_type: str | None) -> Kind | None:
        if (kind := kind_of(media_type)) == IMAGE:
            raise ValueError("is that of an image, so the type of the part must be image")
        return kind

    @field_validator("data")
    @classmethod
    def _is_of_its_kind(cls, data: str | None, info: ValidationInfo) -> str | None:
        return None if data is None else document_data(data, info.data.get("media_type"))

    @model_validator(mode="after")
    def _is_one(self) -> "DocumentPart":
        require_one_source(kind_of(self.media_type), data=self.data, url=self.url, text=self.text)
        return self

    @property
    def content(self) -> str | None:
        """The text of a plain text; None for a PDF."""
        return self.text if self.data is None else document_text(self.data, kind_of(self.media_type))

    @property
    def chars(self) -> int:
        """The length of its content in a request."""
        return len(self.data or self.text or "")

    @property
    def size(self) -> int:
        """The number of bytes; 0 of one by URL."""
        return len(self.text.encode()) if self.text is not None else size_of_base64(self.data or "")


Attachment: TypeAlias = ImagePart | DocumentPart
ContentPart = Annotated[TextPart | ImagePart | DocumentPart, Field(discriminator="type")]
Content = str | Annotated[list[ContentPart], Field(min_length=1)]
"""An empty text is a blank one: other providers have such answers, with calls of tools only."""


def is_blank_content(content: str | Sequence[ContentPart]) -> bool:
    """Whether it has no attachment and no visible text."""
    if isinstance(content, str):
        return is_blank(content)
    return all(isinstance(part, TextPart) and is_blank(part.text) for part in content)


def _require_content(content: Any) -> Any:
    if is_blank_content(content):
        raise blank_error()
    return content


NewContent = Annotated[Content, AfterValidator(_require_content)]
"""That of a message to answer."""


class Message(InputModel):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content

    @model_validator(mode="after")
    def _only_users_attach(self) -> "Message":
        if self.role != "user" and self.attachments:
            raise ValueError(f"a message of role {self.role!r} may contain text only")
        return self

    @property
    def parts(self) -> list[TextPart | ImagePart | DocumentPart]:
        """The content as a list of parts."""
        if isinstance(self.content, str):
            return [TextPart(type="text", text=self.content)]
        return list(self.content)

    @property
    def size(self) -> int:
        """The approximate number of characters, attachments included."""
        return sum(PART_CHARS + part.chars for part in self.parts)

    @property
    def attachments(self) -> list[Attachment]:
        """Its images and documents, in order."""
        return [part for part in self.parts if not isinstance(part, TextPart)]

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))


class SentMessage(NamedTuple):
    """A message for a running agent; `message_id` is a UUID that identifies it."""

    message_id: str
    message: Message
    priority: Priority
