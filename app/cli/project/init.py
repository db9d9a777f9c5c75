"""`runtally init`: lays out a project with a graph, a tool, its test, settings and a Dockerfile."""

import re
import shlex
from pathlib import Path
from string import Template

from rich.console import Console

from app import __version__
from app.auth.keys import mint_key
from app.errors import OperatorError
from app.graphs.catalog import SHIPPED_GRAPHS

_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = ".template"
_HIDDEN = "dot-"
_SETTINGS_FILE = ".env"
_PROVIDER = "claude_agents"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class ProjectExists(OperatorError):
    """The project cannot be laid out without overwriting a file; the text names it."""


def init(console: Console, directory: Path) -> None:
    """Write the files of a project; raises `ProjectExists` before the first one if any is there."""
    name = _name_of(directory)
    values = {"name": name, "graph": f"{_PROVIDER}:{name}", "key": mint_key(), "version": __version__}
    files = {
        directory / _target(template.relative_to(_TEMPLATES), name): template
        for template in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}"))
    }
    _require_absent(files)
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, Template(template.read_text("utf-8")).substitute(values))
    console.print(f"Wrote {len(files)} files:")
    for path in files:
        console.print(f"  {path}", markup=False)
    here = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    console.print("\nTry it, without a key of a model provider:")
    console.print(
        f'  {here}runtally demo --once {values["graph"]} "A shipping quote, please."',
        markup=False,
        soft_wrap=True,
    )
    console.print(f"\nEverything else is in {directory / 'README.md'}.", markup=False)


def _name_of(directory: Path) -> str:
    """The name of the graph: that of the directory as far as possible."""
    words = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower()).strip("-")
    name = words[:100].strip("-") if _NAME.fullmatch(words) else "project"
    return f"my-{name}" if (SHIPPED_GRAPHS / f"{name}.md").exists() else name


def _target(template: Path, name: str) -> Path:
    """Where a template goes; hidden files are not hidden here, where they would be in force."""
    file = template.name.removesuffix(_SUFFIX)
    file = f".{file.removeprefix(_HIDDEN)}" if file.startswith(_HIDDEN) else file
    return template.parent / (f"{name}.md" if file == "graph.md" else file)


def _require_absent(files: dict[Path, Path]) -> None:
    for path in files:
        # A dangling link is there as well: writing would create the file that it names.
        if path.exists() or path.is_symlink():
            message = f"{path} is there already, and nothing is overwritten. Choose another directory."
            raise ProjectExists(message)
        for parent in path.parents:
            if parent.exists() and not parent.is_dir():
                raise ProjectExists(f"{parent} is no directory. Choose another directory.")


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        if path.name == _SETTINGS_FILE:
            path.chmod(0o600)
        file.write(text)
