from pathlib import Path

import pytest

from tests.unit.billing.journals import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "data" / "journal")
