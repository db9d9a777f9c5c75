from app.executors.text import loggable


def test_untrusted_text_is_logged_in_part_and_without_control_characters() -> None:
    logged = loggable("API Error: \x1b]0;title\x07\n\x9b2J\u202e é \ud800" + "x" * 1000)

    assert logged.startswith(r"API Error: \x1b]0;title\x07\n\x9b2J\u202e é ")
    assert logged.isprintable() or "\ufffd" in logged
    assert len(logged) < 600
