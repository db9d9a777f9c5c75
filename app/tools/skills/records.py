"""Skill: one folder of instructions and further files, as it was when the server started."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

INSTRUCTIONS: Final = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill."""

    content: bytes
    is_executable: bool

    @property
    def text(self) -> str | None:
        """The content; None if it is not text."""
        try:
            return None if b"\0" in self.content else self.content.decode()
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill; its further front matter (such as `allowed-tools`) has no effect."""

    name: str
    description: str
    """Read by the model to decide when it needs the skill."""
    instructions: str
    sha256: str
    """Of the paths and contents of all files."""
    files: Mapping[str, SkillFile] = field(repr=False)
    """By their paths below the skill's folder."""
