import re
from pathlib import Path

import pytest

from app.cli.imports.source import NotImportable, read_json
from tests.library_words import shown_words

JSON = (
    '{\n\t"mcpServers": {\n\t\t"a": {"command": "npx", "args": ["-y", "\\u00e9"], "timeout": 1.5e3}\n\t}\n}\n'
)


@pytest.mark.parametrize("text", [JSON, f"\ufeff{JSON}", JSON.replace("\n", "\r\n")])
def test_a_file_is_read_as_editors_save_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode())

    assert read_json(path)["mcpServers"]["a"]["args"] == ["-y", "é"]


def test_a_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    letters = range(len(JSON.rstrip()))
    texts = [
        *(JSON[:end] for end in letters),
        *(f"{JSON[:at]}{mark}{JSON[at:]}" for at in letters for mark in ("//\n", "]", ",,")),
    ]
    mistakes: list[str] = []
    for text in texts:
        path.write_text(text, encoding="utf-8")
        try:
            read_json(path)
        except NotImportable as error:
            mistakes.append(str(error))

    assert len(mistakes) > len(texts) / 2
    form = rf"{path}: line [0-9]+, column [0-9]+: is not valid JSON: look for a comma, .*"
    assert [each for each in mistakes if not re.fullmatch(form, each)] == []
    assert shown_words("".join(mistakes)) == set()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1, "a": 2}', "has the key 'a' twice in one object"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"1" * 5_000, "has a number that is too large"),
        (b"{}\n\xff", "line 2: is not UTF-8 text"),
    ],
)
def test_what_is_no_usable_value_is_explained(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)

    with pytest.raises(NotImportable, match=words):
        read_json(path)
