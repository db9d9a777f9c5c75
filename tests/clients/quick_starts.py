"""The programs of the quick starts."""

import re

from tests.architecture.tree import ROOT


def programs(document: str, language: str) -> list[tuple[str, str]]:
    """The title of each chapter with a program in it, and the program."""
    chapters = re.split("^## ", (ROOT / "docs" / document).read_text("utf-8"), flags=re.MULTILINE)
    found = []
    for chapter in chapters:
        title, _, text = chapter.partition("\n")
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        found += [(title, block) for block in blocks]
    return found
