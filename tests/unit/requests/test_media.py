"""Each label with each content: what is taken, and as what."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.executors.api_format.prompt import attachment_block
from app.requests.attachments import decoded
from app.requests.messages import ContentPart
from app.requests.run_request import UploadedFile
from tests.media import CONTENTS, PAIRS, PDF, PIXEL, b64, sent_block

PART: TypeAdapter[Any] = TypeAdapter(ContentPart)


@pytest.mark.parametrize(("says", "label", "name"), PAIRS)
def test_the_bytes_decide_and_a_refusal_names_the_data(says: str, label: str, name: str) -> None:
    content = CONTENTS[name]
    expected = sent_block(says, name)
    is_image = says == "image" or (not says and (content.kind or "").startswith("image/"))
    part = {"type": "image" if is_image else "document", "mediaType": label, "data": b64(content.data)}

    if expected is None:
        with pytest.raises(ValidationError) as error:
            PART.validate_python(part)
        assert [each["loc"][-1] for each in error.value.errors()] == ["data"]
        return
    taken = PART.validate_python(part)
    assert attachment_block(taken) == expected
    # What is stored is taken again, as the same.
    assert PART.validate_python(taken.model_dump(by_alias=True)) == taken
    assert taken.size == len(content.sent)


PADDED = b64(b"~~~~~>??")
"""In it are characters of the alphabet that differ for URLs, and a padding."""


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (PADDED, b"~~~~~>??"),
        (PADDED.translate(str.maketrans("+/", "-_")), b"~~~~~>??"),
        (PADDED.rstrip("="), b"~~~~~>??"),
        (PADDED + "===", b"~~~~~>??"),
        ("\r\n".join([PADDED[:4], PADDED[4:], ""]), b"~~~~~>??"),
        # Bits that nothing needs.
        ("YR==", b"a"),
        ("", b""),
    ],
)
def test_base64_is_taken_as_programs_write_it_and_kept_as_the_provider_takes_it(
    data: str, content: bytes
) -> None:
    file = UploadedFile.model_validate({"path": "a", "data": data})

    assert (file.content, file.data, file.size) == (content, b64(content), len(content))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("A", "is not valid base64"),
        ("AAAAA", "is not valid base64"),
        ("AA=A", "is not valid base64"),
        ("AAA\N{SNOWMAN}", "is not valid base64"),
        ("%41AA", "is not valid base64"),
        ("ab+_", "mixes two alphabets"),
        ("ab-/", "mixes two alphabets"),
    ],
)
def test_what_may_mean_two_things_is_refused(data: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decoded(data)


@pytest.mark.parametrize(("before", "is_pdf"), [(0, True), (1_019, True), (1_020, False)])
def test_a_pdf_may_begin_late(before: int, *, is_pdf: bool) -> None:
    part = {"type": "document", "mediaType": "application/pdf", "data": b64(b"\n" * before + PDF)}

    if is_pdf:
        assert PART.validate_python(part).data == b64(PDF)
    else:
        with pytest.raises(ValidationError, match="no %PDF- in its first 1024 bytes"):
            PART.validate_python(part)


def test_a_text_about_pdfs_is_a_text() -> None:
    part = {"type": "document", "mediaType": "text/markdown", "data": b64(b"%PDF- begins a PDF.")}

    assert PART.validate_python(part).content == "%PDF- begins a PDF."


def test_an_image_needs_no_media_type() -> None:
    assert PART.validate_python({"type": "image", "data": b64(PIXEL)}).media_type == "image/png"
