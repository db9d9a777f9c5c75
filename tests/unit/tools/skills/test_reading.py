from typing import Any

import pytest

from app.tools.skills.reading import PAGE_CHARS, SKILL_TOOL, described, skill_tool
from app.tools.skills.records import Skill, SkillFile
from runtally.testing import call_tool
from runtally.tools.tool import Tool, ToolFailed

LONG = "x" * PAGE_CHARS + "end"
FILES = {
    "SKILL.md": b"---\nname: report\n---\nSay hello.",
    "data/long.txt": LONG.encode(),
    "logo.png": b"\x89PNG\x00",
    "empty": b"",
}


def a_skill(name: str = "report", **files: bytes) -> Skill:
    kept = {path: SkillFile(content, is_executable=False) for path, content in (files or FILES).items()}
    return Skill(name, "Writes reports.", "Say hello.", "0" * 64, kept)


async def read(tool: Tool, **args: Any) -> str:
    return (await call_tool(tool, **args)).markdown


async def test_an_agent_reads_the_instructions_then_the_files_they_name() -> None:
    tool = skill_tool([a_skill()])

    assert await read(tool, skill="report") == (
        "Say hello.\n\nFiles of this skill:\ndata/long.txt\nempty\nlogo.png"
    )
    first = await read(tool, skill="report", path="data/long.txt")
    assert first.endswith(f"x\n[3 more characters: read on with the offset {PAGE_CHARS}]")
    assert await read(tool, skill="report", path="data/long.txt", offset=PAGE_CHARS) == "end"
    assert await read(tool, skill="report", path="empty") == "[nothing]"
    assert (tool.id, tool.effect) == (SKILL_TOOL, "read_only")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"skill": "other"}, "There is no such skill. There are: report."),
        ({"skill": "../report"}, "There is no such skill. There are: report."),
        ({"skill": "report", "path": "logo.png"}, "This file is not text and cannot be read."),
        *(
            ({"skill": "report", "path": path}, "The skill has no such file. It has: SKILL.md, data/long.txt")
            for path in ("../../etc/passwd", "/etc/passwd", "data", "data/../SKILL.md", "", ".", "SKILL.md/")
        ),
    ],
)
async def test_nothing_else_can_be_read(args: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        await read(skill_tool([a_skill()]), **args)
    assert str(failed.value).startswith(told)


def test_the_prompt_names_skills_and_not_what_they_say() -> None:
    prompt = described("You write.", [a_skill(), a_skill("audit")], in_workspace=False)

    assert prompt.startswith("You write.\n\nSkills are instructions")
    assert prompt.endswith("- report: Writes reports.\n- audit: Writes reports.")
    assert "skills/NAME/" in described("You write.", [a_skill()], in_workspace=True)
    assert described("You write.", [], in_workspace=True) == "You write."
