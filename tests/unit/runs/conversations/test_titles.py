import pytest

from app.runs.conversations.titles import MAX_FOUND_CHARS, MAX_TITLE_CHARS, title_in, title_of

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


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Herons in winter", "Herons in winter"),
        ("\n\n  # **Herons** in `winter`.\nIgnored.", "Herons in winter"),
        ('"Was ist los?"', "Was ist los?"),
        ("\u201cHerons\u201d", "Herons"),
        ("<script>alert(1)</script>", "script alert(1) /script"),
        ("[win](https://evil.example)", "win (https://evil.example)"),
        # What reverses or hides text, and what ends a line on a terminal.
        ("abc\u202efdp.exe\u200b\u2066x\x1b[31m", "abcfdp.exex 31m"),
        ("one\u2028two", "one"),
        ("\u200f\u200b", None),
        ("***", None),
        ("", None),
        ("on and on " * 500, "on and on " * 5 + "on and…"),
        ("x" * 5_000, "x" * (MAX_FOUND_CHARS - 1) + "…"),
    ],
)
def test_whatever_a_model_answers_a_title_is_one_short_line_of_plain_text(
    answer: str, title: str | None
) -> None:
    assert title_in(answer) == title
