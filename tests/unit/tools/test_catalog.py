from pathlib import Path

import pytest

from app.tools.catalog import ToolCatalog, ToolCatalogError
from tests.unit.tools.samples import borrows, weather

SAMPLES = "tests.unit.tools.samples"
SHIPPED = ["core__calculate", "core__get_current_time"]


def fault(*modules: str) -> str:
    with pytest.raises(ToolCatalogError) as caught:
        ToolCatalog.load(modules)
    return str(caught.value)


def test_the_shipped_tools_are_always_there() -> None:
    assert [tool.id for tool in ToolCatalog.load([]).all()] == SHIPPED


def test_every_tool_of_a_named_module_joins() -> None:
    catalog = ToolCatalog.load([f"{SAMPLES}.borrows"])
    assert [tool.id for tool in catalog.all()] == [*SHIPPED, "demo__forecast", "demo__weather"]
    assert catalog.get("demo__forecast") is borrows.forecast
    assert catalog.ids() == {*SHIPPED, "demo__forecast", "demo__weather"}


def test_an_installed_package_brings_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "forecasts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: forecasts\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[runtally.tools]\nweather = {SAMPLES}.weather\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert [tool.id for tool in ToolCatalog.load([]).all()] == [*SHIPPED, "demo__weather"]


def test_the_same_tool_seen_twice_is_one_tool() -> None:
    catalog = ToolCatalog.load([f"{SAMPLES}.weather", f"{SAMPLES}.borrows", f"{SAMPLES}.weather"])
    assert catalog.get("demo__weather") is weather.weather


def test_two_tools_with_one_id_are_refused_and_both_modules_named() -> None:
    text = fault(f"{SAMPLES}.weather", f"{SAMPLES}.same_id")
    assert "'demo__weather'" in text
    assert f"{SAMPLES}.weather" in text
    assert f"{SAMPLES}.same_id" in text


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (f"{SAMPLES}.missing", "ModuleNotFoundError"),
        (f"{SAMPLES}.raises", "RuntimeError: the weather service has no address"),
        (f"{SAMPLES}.leaves", "SystemExit: leaving"),
        (f"{SAMPLES}.empty", "defines no tool"),
        ("", "ValueError"),
    ],
)
def test_a_module_that_cannot_be_used_is_named_with_the_reason(module: str, expected: str) -> None:
    text = fault(module)
    assert repr(module) in text
    assert "RUNTALLY_TOOLS" in text
    assert expected in text
