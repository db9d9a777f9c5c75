"""A tool of a server in a process of its own: it notes its calls in a file, and may hang."""

import asyncio
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from runtally.tools.tool import ToolContext, tool

NOTE = "mcp__runtally__desk__note"
NOTER = "claude_agents:noter"


class Note(BaseModel):
    text: str


@tool(id="desk__note", description="Take a note.", effect="external_side_effect")
async def note(args: Note, _context: ToolContext) -> str:
    with (Path.home() / "notes").open("a") as notes:
        notes.write(f"{args.text}\n")
    if (Path.home() / "hang").exists():
        await asyncio.Event().wait()
    return "Noted."


def noted(directory: Path) -> list[str]:
    """What calls of the servers with this directory have noted."""
    notes = directory / "notes"
    return notes.read_text().splitlines() if notes.exists() else []


def settings(directory: Path, **head: Any) -> dict[str, str]:
    """Settings with this tool and a graph that asks about its calls; `head` are keys of the graph."""
    graphs = directory / "graphs"
    graphs.mkdir()
    lines = "".join(f"{key}: {value}\n" for key, value in head.items())
    (graphs / "noter.md").write_text(
        f"---\ndescription: Notes.\ntools: [desk__note]\napprove: [external_side_effect]\n{lines}---\nNote.\n"
    )
    return {
        "RUNTALLY_TOOLS": "tests.e2e.noting_tool",
        "RUNTALLY_GRAPHS_DIR": str(graphs),
        "RUNTALLY_PARK_AFTER_S": "0.05",
    }
