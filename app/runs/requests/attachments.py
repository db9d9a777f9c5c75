"""AttachmentRules: how many attachments a request may have, how large, and whether by URL."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.errors import Invalid
from app.requests.attachments import MAX_TOTAL_BYTES
from app.requests.messages import Attachment, ContentPart, DocumentPart, ImagePart, Message, TextPart

DEFAULT_COUNT = 20
DEFAULT_BYTES = 10 * 2**20


@dataclass(frozen=True, slots=True)
class AttachmentRules:
    """The operator's rules."""

    by_url: bool = False
    """Whether URLs are passed to the provider, which opens them; this server never does."""
    max_count: int = DEFAULT_COUNT
    max_bytes: int = DEFAULT_BYTES
    """Of one attachment."""

    def allow(self, attachment: Attachment) -> bool:
        """Whether this attachment alone breaks no rule."""
        return attachment.size <= self.max_bytes and (attachment.url is None or self.by_url)

    def fitting(
        self, earlier: Sequence[Sequence[ContentPart]], *, new: Iterable[ContentPart]
    ) -> list[list[ContentPart]]:
        """The contents of earlier messages as far as they fit into one request with the parts of a new one.

        The latest attachments are kept; for those before them there are notes, so that a chat whose client
        posts all its messages each time does not end with the attachment that is one too many.
        """
        attached = [part for part in new if isinstance(part, ImagePart | DocumentPart)]
        count, total = len(attached), sum(part.size for part in attached)
        contents: list[list[ContentPart]] = []
        for content in reversed(earlier):
            kept: list[ContentPart] = []
            for part in reversed(content):
                if isinstance(part, TextPart):
                    kept.append(part)
                    continue
                count, total = count + 1, total + part.size
                fits = count <= self.max_count and total <= MAX_TOTAL_BYTES
                kept.append(part if fits else unreadable(part.type))
            contents.append(kept[::-1])
        return contents[::-1]

    def check_messages(self, messages: Sequence[Message]) -> None:
        """Raise `Invalid` naming the first attachment in `messages` that breaks a rule."""
        self.check(
            (f"messages.{number}.content.{field}", attachment)
            for number, message in enumerate(messages)
            for field, attachment in _attached(message.content)
        )

    def check_content(self, content: str | Sequence[ContentPart]) -> None:
        """The same for the `content` of one message."""
        self.check((f"content.{field}", attachment) for field, attachment in _attached(content))

    def check(self, attachments: Iterator[tuple[str, Attachment]]) -> None:
        """The same for attachments and the names of their fields."""
        total = 0
        for count, (field, attachment) in enumerate(attachments, start=1):
            total += attachment.size
            if attachment.url is not None and not self.by_url:
                message = "is not allowed: this server takes attachments as data only"
                by_url = f"{field}.url"
                raise Invalid.field(by_url, message)
            if count > self.max_count:
                raise Invalid.field(
                    field, f"is one too many: a request may have {self.max_count} attachments"
                )
            if attachment.size > self.max_bytes:
                message = f"has {attachment.size} bytes; an attachment may have {self.max_bytes}"
                raise Invalid.field(field, message)
            if total > MAX_TOTAL_BYTES:
                message = f"makes {total} bytes of attachments; a request may have {MAX_TOTAL_BYTES}"
                raise Invalid.field(field, message)


DEFAULT_RULES = AttachmentRules()


UNREADABLE_PATTERN = r"\[An attachment of type [a-z]+ that cannot be read here\.\]"
"""The notes of `unreadable`."""


def unreadable(kind: str) -> TextPart:
    """What the model gets instead of an attachment of an earlier message."""
    return TextPart(type="text", text=f"[An attachment of type {kind} that cannot be read here.]")


def _attached(content: str | Sequence[ContentPart]) -> Iterator[tuple[str, Attachment]]:
    for number, part in enumerate(() if isinstance(content, str) else content):
        if not isinstance(part, TextPart):
            yield str(number), part
