from hypothesis import given
from hypothesis import strategies as st

from app.sessions.record import Spoken, read, written

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TURNS = st.lists(st.builds(Spoken, st.sampled_from(["user", "assistant"]), TEXTS))


@given(TURNS)
def test_what_is_written_is_read_again(turns: list[Spoken]) -> None:
    assert read(written(turns)) == turns


@given(TURNS)
def test_no_text_ends_its_line_or_the_record(turns: list[Spoken]) -> None:
    first, *lines, last = written(turns).split("\n")
    assert (first, last) == ("<conversation_so_far>", "</conversation_so_far>")
    assert len(lines) == len(turns)
    assert not any("<" in line for line in lines)


def test_other_texts_are_no_record() -> None:
    assert read("hello") is None
    assert read("<conversation_so_far>\nnot json\n</conversation_so_far>") is None
    assert read('<conversation_so_far>\n{"a": 1}\n</conversation_so_far>') is None
    assert read("<conversation_so_far>\n[1]\n</conversation_so_far>") is None
