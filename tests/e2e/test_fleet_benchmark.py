"""Every section of `python -m benchmarks.fleet` at its smallest: it measures something, however slow."""

import math
from pathlib import Path

from benchmarks.fleet.__main__ import SECTIONS, measure
from benchmarks.fleet.sizes import TINY


async def test_every_section_measures_a_fleet(memory_path: Path) -> None:
    rows = await measure(memory_path, TINY, SECTIONS, lambda _: None, beside_single=False)

    measured = {row[0]: float(row[3].replace(",", "")) for row in rows}
    assert list(measured) == [metric.what for section in SECTIONS for metric in section.metrics]
    assert [what for what, value in measured.items() if not math.isfinite(value)] == []
    assert measured["runs at the same time"] == TINY.runs
    assert measured["runs of the killed worker"] >= 1
    assert measured["runs of the stopped worker"] >= 1
    assert measured["active runs above an account's limit, most"] == 0
