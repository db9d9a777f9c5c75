"""ParquetTable: a table as Parquet; the only module that imports pyarrow, which is an extra."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.errors import Invalid

PARQUET = "application/vnd.apache.parquet"

_GROUP_ROWS = 10_000
"""Of a row group: its index stays in memory until the end, so there must not be one for each page."""


class ParquetTable:
    """Writes a table as Parquet; decimals stay exact."""

    media_type = PARQUET
    suffix = "parquet"

    def __init__(self, columns: Mapping[str, str]) -> None:
        """The names of the columns and their types; raises `Invalid` naming `format` without pyarrow."""
        try:
            import pyarrow as pa
            from pyarrow.parquet import ParquetWriter
        except ImportError as error:
            message = "must be csv: this server has no package pyarrow, which the extra `parquet` installs"
            raise Invalid.field("format", message) from error
        types = {
            "text": pa.string(),
            "moment": pa.timestamp("us", tz="UTC"),
            "cost": pa.decimal128(38, 10),
            "price": pa.decimal128(38, 18),
            "quantity": pa.decimal128(38, 1),
        }
        self._arrow = pa
        self._schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
        self._batches: list[Any] = []
        self._output = _Taken()
        self._writer = ParquetWriter(self._output, self._schema)

    def start(self) -> bytes:
        return self._output.take()

    def add(self, rows: Iterable[Sequence[Any]]) -> bytes:
        """The bytes of a row group, once there are enough rows for one."""
        columns = zip(*rows, strict=True)
        arrays = [
            self._arrow.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=False)
        ]
        if arrays:
            self._batches.append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        if sum(batch.num_rows for batch in self._batches) >= _GROUP_ROWS:
            self._write_group()
        return self._output.take()

    def end(self) -> bytes:
        """The last row group and the index of all."""
        self._write_group()
        self._writer.close()
        return self._output.take()

    def _write_group(self) -> None:
        if self._batches:
            self._writer.write_table(self._arrow.Table.from_batches(self._batches, schema=self._schema))
            self._batches.clear()


class _Taken(io.RawIOBase):
    """A file that is taken away while it is written; the writer only asks how long it is."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, block: Any) -> int:
        self._blocks.append(bytes(block))
        self._length += len(block)
        return len(block)

    def tell(self) -> int:
        return self._length

    def take(self) -> bytes:
        taken = b"".join(self._blocks)
        self._blocks.clear()
        return taken
