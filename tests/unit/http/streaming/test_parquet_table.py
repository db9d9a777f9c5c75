import io
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

from pyarrow.parquet import ParquetFile

from app.http.streaming.parquet_table import ParquetTable

COLUMNS = {"name": "text", "at": "moment", "cost": "cost", "price": "price", "number": "quantity"}
AT = datetime(2026, 11, 1, 9, 30, 0, 123_456, UTC)
ROW = ("ä", AT, Decimal("-0.0000000001"), Decimal("0.000000000000000001"), Decimal(12))
WITHOUT = """
import sys
sys.modules["pyarrow"] = None
from app.errors import Invalid
from app.http.streaming.parquet_table import ParquetTable
try:
    ParquetTable({})
except Invalid as error:
    print(error.detail)
"""


def test_rows_are_exact_and_groups_are_large() -> None:
    table = ParquetTable(COLUMNS)
    pieces = [
        table.start(),
        *(table.add([ROW, (None,) * 5]) for _ in range(6_000)),
        table.add([]),
        table.end(),
    ]
    found = ParquetFile(io.BytesIO(b"".join(pieces)))
    first, second = found.read_row_group(0).slice(0, 2).to_pylist()

    assert (found.metadata.num_rows, found.metadata.num_row_groups) == (12_000, 2)
    assert tuple(first.values()) == ROW
    assert set(second.values()) == {None}


def test_a_table_without_rows_has_columns() -> None:
    table = ParquetTable(COLUMNS)

    assert ParquetFile(io.BytesIO(table.start() + table.add([]) + table.end())).schema.names == list(COLUMNS)


def test_without_the_package_the_error_names_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == (
        "format: must be csv: this server has no package pyarrow, which the extra `parquet` installs"
    )
