from pathlib import Path

import pytest

from tests.unit.billing.receipts.journals import JournalDirectory


@pytest.fixture
def journals(tmp_path: Path) -> JournalDirectory:
    return JournalDirectory(tmp_path / "data" / "journal")
