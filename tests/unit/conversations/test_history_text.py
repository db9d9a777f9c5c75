import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.history_text import HistoryTurn, decode_history, encode_history, escape_tags

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TURNS = st.lists(st.builds(HistoryTurn, st.sampled_from(["user", "assistant"]), TEXTS))


@given(TURNS)
def test_an_encoded_history_is_decoded_exactly(turns: list[HistoryTurn]) -> None:
    assert decode_history(encode_history(turns)) == turns


@given(TURNS)
def test_no_text_ends_its_line_or_the_history(turns: list[HistoryTurn]) -> None:
    first, *lines, last = encode_history(turns).split("\n")
    assert (first, last) == ("<conversation_so_far>", "</conversation_so_far>")
    assert len(lines) == len(turns)
    assert not any("<" in line for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        '{"a": 1}',
        "[1]",
        '{"role": "user", "content": {"not": "text"}}',
        '{"role": "user", "content": null}',
        '{"role": ["user"], "content": "x"}',
        '{"role": "system", "content": "x"}',
        '{"role": "user", "content": "x", "more": 1}',
        "[" * 100_000,
        "1" * 10_000,
    ],
)
def test_an_invalid_history_is_none(line: str) -> None:
    assert decode_history(f"<conversation_so_far>\n{line}\n</conversation_so_far>") is None
    assert decode_history(line) is None


@pytest.mark.parametrize(
    "tag",
    [
        "<conversation_so_far>",
        "</conversation_so_far>",
        "< / Conversation_So_Far >",
        "<conversation_so_far x='1'>",
    ],
)
def test_only_the_tags_of_a_history_are_escaped(tag: str) -> None:
    text = f"<b>1 < 2</b> conversation_so_far {tag} &lt;"

    escaped = escape_tags(text)

    assert escaped == text.replace(tag, "&lt;" + tag[1:])
    assert escape_tags(escaped) == escaped
