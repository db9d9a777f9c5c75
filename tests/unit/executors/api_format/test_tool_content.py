from app.executors.api_format.tool_content import content_block
from runtally.tools.content import ToolImage, ToolText


def test_content_in_the_format_of_the_api() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}

    assert content_block(ToolText("a")) == {"type": "text", "text": "a"}
    assert content_block(ToolImage("image/png", "AAAA")) == {"type": "image", "source": source}
