"""Tools in the directory of a project."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.tools.catalog import ToolCatalog, ToolCatalogError
from app.tools.project import ProjectModules
from runtally import ToolFailed
from runtally.testing import call_tool
from tests.unit.tools.test_catalog import SHIPPED

TOOL = """
from pydantic import BaseModel
from runtally import ToolContext, ToolOutput, tool
class Nothing(BaseModel): pass
@tool(id="{id}", description="d", effect="read_only", redact=())
async def a_tool(args: Nothing, context: ToolContext) -> ToolOutput[Nothing]:
    return ToolOutput("m", Nothing())
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project with the tools `planted_tools.one` and `planted_tools.deep.two`; it shadows other modules."""
    tmp_path.chmod(0o755)
    names = {
        "planted_tools/one.py": "planted__one",
        "planted_tools/deep/two.py": "planted__two",
        "json.py": "planted__json",
        "runtally/one.py": "planted__runtally",
        "app/one.py": "planted__app",
        "email/one.py": "planted__email",
        "wave.py": "planted__wave",
        "planted_needs.py": "planted__needs",
    }
    for name, tool_id in names.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TOOL.replace("{id}", tool_id))
    (tmp_path / "planted_needs.py").write_text("import planted_helper\n")
    (tmp_path / "planted_helper.py").write_text("")
    # A module of Python that nothing has imported yet.
    sys.modules.pop("wave", None)
    modules, finders = set(sys.modules), list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def fault(directory: Path, module: str) -> str:
    with pytest.raises(ToolCatalogError) as caught:
        ToolCatalog.load([module], directory)
    return str(caught.value)


def test_modules_of_the_project_are_found(project: Path) -> None:
    before = list(sys.path)

    catalog = ToolCatalog.load(["planted_tools.one", "planted_tools.deep.two"], project)

    assert [tool.id for tool in catalog.all()] == [*SHIPPED, "planted__one", "planted__two"]
    assert sys.path == before
    assert sum(isinstance(finder, ProjectModules) for finder in sys.meta_path) == 1


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("planted_tools.three", "there is no {}/planted_tools/three.py. Start the server in"),
        ("planted_other.one", "there is no {}/planted_other/one.py"),
        ("planted_needs", "cannot be imported: ModuleNotFoundError: No module named 'planted_helper'"),
        ("json", "defines no tool: /"),
        ("wave", "defines no tool: /"),
        ("sys", "defines no tool: it is a part of Python"),
        ("app.one", "'app' is the installed package"),
        ("runtally.one", "'runtally' is the installed package"),
        ("email.one", "{}/email/one.py is not looked at. Choose another name"),
    ],
)
def test_a_module_that_is_not_found_is_explained(project: Path, module: str, expected: str) -> None:
    text = fault(project, module)

    assert repr(module) in text
    assert "RUNTALLY_TOOLS" in text
    assert expected.format(project) in text


def test_a_project_takes_no_module_of_others(project: Path) -> None:
    ToolCatalog.load(["planted_tools.one"], project)

    import wave  # noqa: PLC0415 - imported only now

    assert Path(str(wave.__file__)).parent != project


def test_the_example_of_the_documentation_is_a_tool(project: Path) -> None:
    document = Path(__file__).parents[3] / "docs" / "TOOLS.md"
    example, *_ = re.findall(r"^```python\n(.*?)^```$", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (project / "planted_example.py").write_text(example)

    catalog = ToolCatalog.load(["planted_example"], project)
    output = asyncio.run(call_tool(catalog.get("shipping__quote"), country="FR", weight_kg=2))

    assert output.markdown == "10 USD"
    with pytest.raises(ToolFailed, match="30 kg"):
        asyncio.run(call_tool(catalog.get("shipping__quote"), country="FR", weight_kg=31))


@pytest.mark.parametrize("path", [".", "planted_tools", "planted_tools/one.py", "planted_tools/deep/two.py"])
def test_a_module_that_others_can_change_is_refused(project: Path, path: str) -> None:
    target = project / path
    target.chmod(target.stat().st_mode | 0o002)

    text = fault(project, "planted_tools.one")

    assert text.startswith(f"{target} can be written by every user")
    assert "planted_tools.one" not in sys.modules
