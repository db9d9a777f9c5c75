"""How an agent gets to know skills: their names in the system prompt, the rest by a tool that reads it."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from app.tools.skills.records import INSTRUCTIONS, Skill
from runtally.tools.tool import Tool, ToolContext, ToolFailed, ToolOutput, tool

SKILL_TOOL: Final = "skills__read"
FOLDER: Final = "skills"
"""Where in a workspace the files of skills are."""

PAGE_CHARS: Final = 30_000
_BYTES_OF_CHAR = 4

_RULE = (
    f"Skills are instructions for certain tasks. If a task is one of these, read its skill with the tool "
    f"{SKILL_TOOL} before you begin, and follow it:"
)
_IN_WORKSPACE = f"Their files are in the workspace as well: {FOLDER}/NAME/ for the skill NAME."


class SkillArgs(BaseModel):
    """A file of a skill."""

    model_config = ConfigDict(extra="forbid")

    skill: str = Field(max_length=64, description="The name of the skill.")
    path: str = Field(
        default=INSTRUCTIONS,
        max_length=500,
        description="A file of the skill, as its instructions name it; without it you get the instructions.",
    )
    offset: int = Field(default=0, ge=0, description="From which character on, for long files.")


class SkillRead(BaseModel):
    """What was read."""

    skill: str
    path: str


def described(prompt: str, skills: Sequence[Skill], *, in_workspace: bool) -> str:
    """The system prompt of a graph with the names and descriptions of its skills."""
    if not skills:
        return prompt
    lines = [_RULE, *(f"- {skill.name}: {skill.description}" for skill in skills)]
    return "\n\n".join([prompt, "\n".join([*lines, *([_IN_WORKSPACE] if in_workspace else [])])])


def files_in_workspace(skills: Sequence[Skill]) -> list[tuple[str, bytes, bool]]:
    """The files: the path in a workspace, the content, whether it is executable."""
    return [
        (f"{FOLDER}/{skill.name}/{path}", file.content, file.is_executable)
        for skill in skills
        for path, file in skill.files.items()
    ]


def skill_tool(skills: Sequence[Skill]) -> Tool:
    """The tool that reads these skills, and nothing else: it opens no file."""
    by_name = {skill.name: skill for skill in skills}

    @tool(
        id=SKILL_TOOL,
        description="Read the instructions or another file of a skill.",
        effect="read_only",
        redact=("skill", "path"),
        max_result_bytes=2 * _BYTES_OF_CHAR * PAGE_CHARS,
    )
    async def read(args: SkillArgs, _context: ToolContext) -> ToolOutput[SkillRead]:
        text = _text(by_name, args)
        page = text[args.offset : args.offset + PAGE_CHARS]
        end = args.offset + len(page)
        if end < len(text):
            page += f"\n[{len(text) - end} more characters: read on with the offset {end}]"
        read = SkillRead(skill=args.skill, path=args.path)
        return ToolOutput(markdown=page or "[nothing]", structured=read)

    return read


def _text(skills: Mapping[str, Skill], args: SkillArgs) -> str:
    if (skill := skills.get(args.skill)) is None:
        raise ToolFailed(f"There is no such skill. There are: {', '.join(skills)}.")
    others = sorted(path for path in skill.files if path != INSTRUCTIONS)
    if args.path == INSTRUCTIONS:
        listed = "\n".join(["", "", "Files of this skill:", *others]) if others else ""
        return f"{skill.instructions}{listed}"
    if (file := skill.files.get(args.path)) is None:
        raise ToolFailed(f"The skill has no such file. It has: {', '.join([INSTRUCTIONS, *others])}.")
    if file.text is None:
        raise ToolFailed("This file is not text and cannot be read.")
    return file.text
