"""A section of `python -m benchmarks.fleet` at its smallest: it measures something, however slow."""

import math
from pathlib import Path

import pytest

from benchmarks.fleet.__main__ import SECTIONS, measure
from benchmarks.fleet.sizes import TINY

pytestmark = pytest.mark.long

SHORT = [section for section in SECTIONS if section.name == "spread"]


async def test_a_section_measures_a_fleet(memory_path: Path) -> None:
    rows = await measure(memory_path, TINY, SHORT, lambda _: None, beside_single=False)

    measured = {row[0]: float(row[3].replace(",", "")) for row in rows}
    assert list(measured) == [metric.what for section in SHORT for metric in section.metrics]
    assert [what for what, value in measured.items() if not math.isfinite(value)] == []
    assert measured["runs at the same time"] == TINY.runs
