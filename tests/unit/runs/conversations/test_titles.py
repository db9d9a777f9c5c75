import pytest

from app.runs.conversations.titles import MAX_TITLE_CHARS, title_of

EMOJI = "\U0001f426"


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("", None),
        (" \n\t", None),
        ("What  time\nis it?", "What time is it?"),
        ("x" * MAX_TITLE_CHARS, "x" * MAX_TITLE_CHARS),
        ("heron " * 20, ("heron " * 20).strip()),
        ("heron " * 21, "heron " * 18 + "heron…"),
        # Of words that are as long as a title, and of texts without spaces.
        ("a " + "x" * 200, "a " + "x" * 117 + "…"),
        ("鳥" * 200, "鳥" * 119 + "…"),
        (EMOJI * 200, EMOJI * 119 + "…"),
    ],
)
def test_a_title_is_the_beginning_of_a_question_in_whole_words(question: str, title: str | None) -> None:
    assert title_of(question) == title
    assert len(title or "") <= MAX_TITLE_CHARS
