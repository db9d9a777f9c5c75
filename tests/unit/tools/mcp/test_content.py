"""What the model gets of results of external servers."""

import base64
import json
import struct
from typing import Any

import pytest
from mcp import types

from app.tools.mcp.content import MAX_IMAGES, error_content, model_content
from app.tools.mcp.spec import ContentLimits
from runtally.tools.content import ToolImage, ToolText

LIMITS = ContentLimits(100, 1_000)


def png(side: int = 10, size: int = 90) -> str:
    """A PNG with this header and size, as far as its header shows."""
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", side, side)
    return base64.b64encode(header.ljust(size, b"x")).decode()


def a_result(*blocks: dict[str, Any], **fields: Any) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": list(blocks), **fields})


def image(data: str, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": kind}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def file(kind: str | None, **content: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "shop://a", "mimeType": kind, **content}}


LINK = {
    "type": "resource_link",
    "uri": "shop://b",
    "name": "b",
    "title": "B",
    "mimeType": "text/csv",
    "size": 9,
}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (text("a\0b"), "a\ufffdb"),
        (file("text/plain", text="inside"), "[resource shop://a, text/plain]\ninside"),
        (file(None, blob="AAAA"), "[resource shop://a]\n\n[application/octet-stream, 3 bytes: left out"),
        (LINK, "[link to the resource shop://b, text/csv, 9 bytes] B"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio/wav, 3 bytes: left out"),
        (image(png(9_000)), "[image/png, 90 bytes: left out, because it has 9000 x 9000 pixels]"),
        (image("AAAA", "image/svg+xml\n"), "[image/svg+xml, 3 bytes: left out, because it is no PNG"),
        (image(png(size=1_200)), "[image/png, 1200 bytes: left out, because the images of a result may have"),
        (image("A"), "is not valid base64"),
    ],
)
def test_what_is_no_text_becomes_one(block: dict[str, Any], expected: str) -> None:
    (found,) = model_content(a_result(block), ContentLimits(1_000, 1_000))

    assert isinstance(found, ToolText)
    assert expected in found.text


def test_texts_and_images_keep_their_order_and_images_their_true_kind() -> None:
    data = png()
    blocks = [text("a"), text("b"), image(data[:8] + "\n" + data[8:], "image/jpeg"), text(" "), text("c")]

    found = model_content(a_result(*blocks), LIMITS)

    assert found == (ToolText("a\n\nb"), ToolImage("image/png", data), ToolText("c"))


def test_a_result_of_too_many_images_has_some_of_them() -> None:
    by_number = model_content(a_result(*[image(png(size=30))] * 25), ContentLimits(10_000, 10_000))
    by_size = model_content(a_result(*[image(png(size=300))] * 4), ContentLimits(10_000, 1_000))

    assert sum(isinstance(each, ToolImage) for each in by_number) == MAX_IMAGES
    assert sum(isinstance(each, ToolImage) for each in by_size) == 3
    assert isinstance(by_size[-1], ToolText)


@pytest.mark.parametrize("letter", ["x", "é", "🎉"])
def test_a_text_is_cut_between_two_characters_and_the_rest_is_counted(letter: str) -> None:
    whole = letter * 60
    blocks = [text("ab"), text(whole), image(png()), text("later")]
    (first, picture, last) = model_content(a_result(*blocks), LIMITS)

    assert isinstance(first, ToolText)
    assert isinstance(picture, ToolImage)
    assert isinstance(last, ToolText)
    kept = first.text.removeprefix("ab\n\n")
    assert whole.startswith(kept)
    assert 100 - len(letter.encode()) < len(first.text.encode()) <= 100 or kept == whole
    missing = len(whole.encode()) - len(kept.encode())
    if missing:
        missing += len("later")
        assert f"truncated: {missing} bytes of text are missing" in last.text
    else:
        assert last.text == "later"


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], ['{"stock": 3}']),
        ([image(png())], ["image/png", '{"stock": 3}']),
        ([text("three")], ["three"]),
    ],
)
def test_structured_content_is_a_text_where_there_is_none(blocks: list[Any], expected: list[str]) -> None:
    found = model_content(a_result(*blocks, structuredContent={"stock": 3}), LIMITS)

    assert [each.text if isinstance(each, ToolText) else each.media_type for each in found] == expected


WRAPPED = f"{png()[:8]}\n{png()[8:]}"


@pytest.mark.parametrize(
    ("data", "repeated"),
    [
        (png(), {"content": [image(png())]}),
        (png(), f"data:image/png;base64,{png()}"),
        (png(), ["see", {"page": f"![a]( data:image/png;base64,{png()} ) and\nmore"}]),
        (WRAPPED, {"data": WRAPPED}),
    ],
    ids=["as it is", "a data URL", "in a page", "with line ends"],
)
def test_structured_content_that_repeats_an_image_is_left_out(data: str, repeated: Any) -> None:
    found = model_content(a_result(image(data), structuredContent={"it": repeated}), LIMITS)

    assert found == (ToolImage("image/png", png()),)


@pytest.mark.parametrize("other", [f"{png()[:-2]}AA{png()}", {png(): 1}, "", 3, None])
def test_structured_content_with_other_data_is_a_text(other: Any) -> None:
    content = {"it": other}
    found = model_content(a_result(image(png()), structuredContent=content), ContentLimits(1_000, 1_000))

    assert found == (ToolImage("image/png", png()), ToolText(json.dumps(content)))


def test_an_error_has_texts_only() -> None:
    result = a_result(text("no"), image(png()), isError=True)

    assert error_content(result, LIMITS) == (
        "no\n\n[image/png, 90 bytes: left out, because an error contains no images]"
    )
