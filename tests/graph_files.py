"""Graph files of servers under test."""

from pathlib import Path
from typing import Any


def graph_files(directory: Path, **texts: str) -> dict[str, Any]:
    """Write a graph file for each name; the setting that names their directory.

    Files of an earlier call stay, unless they have the same name.
    """
    graphs = directory / "graphs"
    graphs.mkdir(exist_ok=True)
    for name, text in texts.items():
        (graphs / f"{name}.md").write_text(text, encoding="utf-8")
    return {"RUNTALLY_GRAPHS_DIR": graphs}
