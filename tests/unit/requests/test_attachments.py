"""What may be attached to a message, and by which names a refused attachment is reported."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.errors import Invalid
from app.executors.api_format.prompt import attachment_block
from app.gateway.estimate import DOCUMENT_TOKENS, text_size
from app.http.attachments import posted_attachment
from app.requests.attachments import MAX_TOTAL_BYTES
from app.requests.messages import ContentPart, DocumentPart, ImagePart, Message, TextPart
from app.runs.requests.attachments import AttachmentRules
from tests.media import PIXEL, b64

PDF = {"type": "document", "mediaType": "application/pdf", "data": b64(b"%PDF-1.4")}
TEXT = {"type": "document", "mediaType": "text/plain", "data": b64("Grüße".encode())}
DOT = {"type": "image", "mediaType": "image/png", "data": b64(PIXEL)}
URL = "https://example.org/a.pdf"
PART: TypeAdapter[Any] = TypeAdapter(ContentPart)

REFUSED = [
    ({**PDF, "data": b64(b"<html>")}, "data", "%PDF-"),
    ({**PDF, "data": "?"}, "data", "base64"),
    ({**TEXT, "data": b64(b"\xff")}, "data", "is not text in UTF-8"),
    ({**TEXT, "mediaType": "font/ttf", "data": b64(b"\xff")}, "data", "is not a PDF or text in UTF-8"),
    ({**TEXT, "data": b64(b"a\0b")}, "data", "U+0000"),
    ({**TEXT, "data": ""}, "data", "empty"),
    ({**DOT, "data": ""}, "data", "empty"),
    ({**DOT, "data": b64(b"<svg/>")}, "data", "image/png, image/jpeg, image/gif and image/webp"),
    ({"type": "image", "mediaType": "text/html", "url": URL}, "mediaType", "that of an image"),
    ({**PDF, "mediaType": "image/png"}, "mediaType", "the type of the part must be image"),
    ({**PDF, "mediaType": 5}, "mediaType", "string"),
    ({**PDF, "title": "x" * 256}, "title", "255"),
    ({**PDF, "url": URL}, "document", "either data or url"),
    ({"type": "document", "mediaType": "application/pdf"}, "document", "either data or url"),
    ({"type": "document", "mediaType": "application/pdf", "text": "x"}, "document", "that of a text"),
    ({"type": "document", "mediaType": "text/plain", "url": URL}, "document", "only images and PDFs"),
    *(
        ({"type": kind, "url": url}, "url", "https://" if "@" not in url else "a user")
        for kind in ("image", "document")
        for url in (
            "http://example.org/a",
            "file:///etc/passwd",
            "https://",
            "https://user:pw@example.org/",
            "https://example.org/a b",
            "https://example.org\\@evil.example/".replace("@", ""),
            "https://example.org:0/",
            "https://[::1/",
            "HTTPS//example.org",
        )
    ),
    ({"type": "image", "url": f"https://example.org/{'a' * 2048}"}, "url", "2048"),
]


@pytest.mark.parametrize(("part", "field", "reason"), REFUSED)
def test_what_is_no_attachment_is_refused_with_its_field(part: Any, field: str, reason: str) -> None:
    with pytest.raises(ValidationError) as error:
        PART.validate_python(part)

    (detail,) = error.value.errors()
    assert detail["loc"][-1] == field if field != "document" else detail["loc"] == ("document",)
    assert reason in detail["msg"]


def test_each_has_its_block_and_its_size() -> None:
    blocks = [attachment_block(PART.validate_python(part)) for part in (PDF, TEXT, DOT)]
    by_url = attachment_block(DocumentPart.model_validate({"type": "document", "url": URL, "title": "Far"}))

    assert [block["source"]["type"] for block in blocks] == ["base64", "text", "base64"]
    assert blocks[1]["source"]["data"] == "Grüße"
    assert by_url == {"type": "document", "source": {"type": "url", "url": URL}, "title": "Far"}
    assert [PART.validate_python(part).size for part in (PDF, TEXT, DOT)] == [8, 7, 70]
    assert DocumentPart.model_validate({"type": "document", "text": "Grüße"}).size == 7


def a_message(*parts: Any) -> Message:
    return Message.model_validate({"role": "user", "content": [{"type": "text", "text": "Look"}, *parts]})


@pytest.mark.parametrize(
    ("parts", "rules", "field", "reason"),
    [
        ([{"type": "image", "url": URL}], AttachmentRules(), "messages.0.content.1.url", "as data only"),
        ([DOT, DOT], AttachmentRules(max_count=1), "messages.0.content.2", "may have 1 attachments"),
        ([PDF], AttachmentRules(max_bytes=7), "messages.0.content.1", "has 8 bytes; an attachment may have"),
        (
            [{"type": "document", "text": "x" * (MAX_TOTAL_BYTES // 2 + 1)}] * 2,
            AttachmentRules(max_bytes=MAX_TOTAL_BYTES),
            "messages.0.content.2",
            f"a request may have {MAX_TOTAL_BYTES}",
        ),
    ],
)
def test_a_broken_rule_names_the_part_the_limit_and_the_size(
    parts: list[Any], rules: AttachmentRules, field: str, reason: str
) -> None:
    message = a_message(*parts)

    with pytest.raises(Invalid) as error:
        rules.check_messages([message])
    with pytest.raises(Invalid) as of_one:
        rules.check_content(message.content)

    assert error.value.errors[0].field == field
    assert reason in error.value.errors[0].message
    assert of_one.value.errors[0].field == field.removeprefix("messages.0.")


def test_what_the_rules_allow_passes() -> None:
    rules = AttachmentRules(by_url=True, max_count=3, max_bytes=70)

    rules.check_messages([a_message(PDF, DOT, {"type": "image", "url": URL}), a_message()])


def test_only_users_attach() -> None:
    with pytest.raises(ValidationError, match="may contain text only"):
        Message.model_validate({"role": "assistant", "content": [PDF]})


@pytest.mark.parametrize(
    ("url", "media_type", "expected"),
    [
        (f"data:text/markdown;charset=utf-8;base64,{b64(b'# Hi')}", "text/markdown", "# Hi"),
        ("data:text/csv,a%2Cb", "text/csv", "a,b"),
        ("data:text/plain;a=b,=3D%3d%0A=\n \n_%C3%A9é", "text/plain", "=3D=\n=\n \n_éé"),
        (f"data:application/pdf;base64,{PDF['data']}", None, None),
        ("data:;base64,YQ%3D%3D%0A", "text/markdown", "a"),
        (URL, "application/pdf", None),
    ],
)
def test_files_of_a_chat_become_documents(url: str, media_type: str | None, expected: str | None) -> None:
    found = posted_attachment(media_type, url=url, title="a.txt", field="f")

    assert isinstance(found, DocumentPart)
    assert (found.content, found.title) == (expected, "a.txt")


@pytest.mark.parametrize(
    ("url", "media_type", "reason"),
    [
        ("data:text/plain,100%", "text/plain", "two hexadecimal digits"),
        ("data:text/plain;base64", "text/plain", "must be a data: URL"),
        ("data:application/zip;base64,AAAA", "application/zip", "is not a PDF or text in UTF-8"),
        ("data:text/plain;base64,ab%2B_", "text/plain", "mixes two alphabets"),
        ("data:application/pdf;base64,AAAA", "application/pdf", "is not a PDF"),
        ("https://example.org/a.txt", "text/plain", "only images and PDFs"),
        ("https://example.org/a", "application/octet-stream", "of an image or of a PDF"),
        ("https://u@example.org/a.png", "image/png", "a user"),
        ("http://example.org/a.png", "image/png", "https://"),
    ],
)
def test_a_file_that_no_model_takes_is_refused_with_its_field(url: str, media_type: str, reason: str) -> None:
    with pytest.raises(Invalid) as error:
        posted_attachment(media_type, url=url, field="messages.0.parts.1.url")

    assert error.value.errors[0].field == "messages.0.parts.1.url"
    assert reason in error.value.errors[0].message


def test_an_image_by_url_is_an_image() -> None:
    assert posted_attachment("image/*", url=URL, field="f") == ImagePart.of(type="image", url=URL)


def test_documents_together_cost_no_more_than_the_largest_context() -> None:
    with_documents = text_size("m", ["hi"], images=0, documents=3, output_tokens=1)
    without = text_size("m", ["hi"], images=0, output_tokens=1)

    assert with_documents.maximum.input_tokens - without.maximum.input_tokens == DOCUMENT_TOKENS


@pytest.mark.parametrize(
    ("earlier", "new", "kept"),
    [
        ([[4], [4, 4]], [4], "x/x4"),
        ([[4, 4], [4]], [4, 4, 4], "xx/x"),
        ([[4], [4]], [], "4/4"),
        ([[4], [], [9]], [MAX_TOTAL_BYTES - 12], "x//9"),
        ([[4], [9]], [MAX_TOTAL_BYTES - 3], "x/x"),
    ],
)
def test_the_latest_attachments_fit_beside_those_of_the_new_message(
    earlier: list[list[int]], new: list[int], kept: str
) -> None:
    def of_size(size: int) -> DocumentPart:
        return DocumentPart.model_construct(type="document", text="x" * size, data=None)

    contents: list[list[ContentPart]] = [
        [*map(of_size, sizes), TextPart(type="text", text="?")] for sizes in earlier
    ]

    found = AttachmentRules(max_count=2).fitting(contents, new=map(of_size, new))

    assert [content[-1] for content in found] == [content[-1] for content in contents]
    sizes = ["".join("x" if isinstance(p, TextPart) else str(p.size) for p in each[:-1]) for each in found]
    assert "/".join(sizes) == kept
