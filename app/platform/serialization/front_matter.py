"""FrontMatter: a Markdown file that begins with YAML between two lines of ---."""

from dataclasses import dataclass
from typing import Any, Self

from frontmatter.default_handlers import YAMLHandler

from app.platform.serialization.strict_yaml import YamlDocument, YamlInvalid, decoded

FENCE = "---"


class FrontMatterInvalid(Exception):
    """A file has no readable front matter; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The keys of a file, and the text after them."""

    document: YamlDocument
    text: str

    @classmethod
    def parse(cls, content: bytes, *, form: str) -> Self:
        """Read the content of a file; raises `FrontMatterInvalid`. `form` describes such files."""
        handler = YAMLHandler()
        try:
            whole = decoded(content).replace("\r\n", "\n")
            text = whole.strip()
            if not handler.detect(text):
                raise FrontMatterInvalid(f"has no front matter: {form}")
            source, rest = handler.split(text)
            first_line = 1 + whole[: whole.index(source)].count("\n")
            document = YamlDocument.read(source, first_line=first_line)
        except YamlInvalid as error:
            problem = f"front matter: is not valid YAML between two lines of {FENCE}: {error}"
            raise FrontMatterInvalid(problem) from error
        except ValueError as error:
            raise FrontMatterInvalid(f"front matter: has no second line {FENCE}: {form}") from error
        if not isinstance(document.value or {}, dict):
            raise FrontMatterInvalid("front matter: must be keys and values, such as description: …")
        return cls(document, rest.strip())

    @property
    def head(self) -> dict[str, Any]:
        """The keys."""
        return self.document.value or {}
