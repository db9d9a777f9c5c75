"""SkillLibrary: the operator's skills, read and hashed when the server starts."""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from app.errors import OperatorError
from app.platform.serialization.front_matter import FENCE, FrontMatter, FrontMatterInvalid
from app.tools.skills.reading import skill_tool
from app.tools.skills.records import INSTRUCTIONS, Skill, SkillFile
from runtally.tools.tool import Tool

MAX_FILES: Final = 200
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_SKILL_BYTES: Final = 8 * MAX_FILE_BYTES

_FORM = f"it begins with a line {FENCE}, name: and description:, a line {FENCE}, then the instructions"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 1024


class SkillInvalid(OperatorError):
    """A skill cannot be used; the text names the skill, the file and the reason."""


@dataclass(frozen=True, slots=True)
class SkillLibrary:
    """The skills by name."""

    skills: Mapping[str, Skill]
    _tools: dict[tuple[str, ...], Tool] = field(default_factory=dict, init=False, repr=False)
    """By the names that a graph gives."""

    @classmethod
    def load(cls, directory: Path | None) -> Self:
        """Read every folder that is not hidden; raises `SkillInvalid` for the first invalid one."""
        entries = [] if directory is None else sorted(directory.iterdir())
        folders = [entry for entry in entries if not entry.name.startswith(".") and not entry.is_file()]
        return cls({folder.name: _read(folder) for folder in folders})

    def named(self, names: Iterable[str]) -> tuple[Skill, ...]:
        return tuple(self.skills[name] for name in names)

    def tools(self, names: tuple[str, ...]) -> tuple[Tool, ...]:
        """The tool that reads these skills; none without skills."""
        if names and names not in self._tools:
            self._tools[names] = skill_tool(self.named(names))
        return (self._tools[names],) if names else ()


NO_SKILLS: Final = SkillLibrary({})


def _read(folder: Path) -> Skill:
    if folder.is_symlink() or not folder.is_dir():
        raise _invalid(folder, "must be a folder, and no link")
    files = dict(_files(folder, folder, room=_Room(folder)))
    if INSTRUCTIONS not in files:
        raise _invalid(folder, f"has no {INSTRUCTIONS}")
    try:
        found = FrontMatter.parse(files[INSTRUCTIONS].content, form=_FORM)
    except FrontMatterInvalid as error:
        raise _invalid(folder, f"{INSTRUCTIONS}: {error}") from error
    name, description = found.head.get("name"), found.head.get("description")
    if name != folder.name or not _NAME.fullmatch(folder.name) or len(folder.name) > _MAX_NAME_CHARS:
        form = f"up to {_MAX_NAME_CHARS} lower case letters, digits and single -"
        raise _invalid(folder, f"{INSTRUCTIONS}: name: must be the folder's name, which has {form}")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _MAX_DESCRIPTION_CHARS:
        problem = f"description: must be a text of up to {_MAX_DESCRIPTION_CHARS} characters"
        raise _invalid(folder, f"{INSTRUCTIONS}: {problem}")
    return Skill(name, " ".join(description.split()), found.text, _sha256(files), files)


class _Room:
    """How many files and bytes a skill may still have."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files, self._bytes = MAX_FILES, MAX_SKILL_BYTES

    def take(self, size: int) -> None:
        self._files -= 1
        self._bytes -= size
        if self._files < 0 or self._bytes < 0:
            most = f"{MAX_FILES} files and {MAX_SKILL_BYTES // 1024**2} MiB"
            raise _invalid(self._folder, f"has more than {most}, the most a skill may have")


def _files(skill: Path, folder: Path, *, room: _Room) -> Iterator[tuple[str, SkillFile]]:
    with os.scandir(folder) as entries:
        # Not sorted yet: there may be any number of them.
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                room.take(0)
                yield from _files(skill, path, room=room)
            else:
                yield path.relative_to(skill).as_posix(), _file(skill, path, room)


def _file(skill: Path, path: Path, room: _Room) -> SkillFile:
    name = path.relative_to(skill).as_posix()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _invalid(skill, f"{name}: is a link, or cannot be read") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        # A hard link may be a file from elsewhere.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise _invalid(skill, f"{name}: must be a file with a single name, and no link")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _invalid(skill, f"{name}: is larger than {MAX_FILE_BYTES // 1024**2} MiB")
    room.take(len(content))
    return SkillFile(content, is_executable=bool(status.st_mode & stat.S_IXUSR))


def _sha256(files: Mapping[str, SkillFile]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        for part in (path.encode(), files[path].content):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _invalid(skill: Path, problem: str) -> SkillInvalid:
    return SkillInvalid(f"skill {skill.name} in RUNTALLY_SKILLS_DIR: {problem}")
