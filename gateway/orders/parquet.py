"""Parquet files of a delivery, written row by row under a schema that never changes."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gateway.orders.shards import Bounds, Shard, whole_shard
from gateway.store.tables import FileKind

FORMAT = "reliquary-parquet/1"
# Texts have 64-bit offsets, so that no column of a row group is too large for its type.
# The name of a list's items is part of its type, and this one is Parquet's own.
IDS = pa.large_list(pa.field("element", pa.int32()))
SCHEMA = pa.schema(
    [
        pa.field("custom_id", pa.large_string()),
        pa.field("prompt_index", pa.int64()),
        pa.field("choice", pa.int32()),
        pa.field("sample_index", pa.int64()),
        pa.field("text", pa.large_string()),
        pa.field("finish_reason", pa.large_string()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("prompt_ids", IDS),
        pa.field("token_ids", IDS),
        pa.field("reference", pa.large_string()),
        pa.field("grade", pa.bool_()),
        pa.field("miner", pa.large_string()),
        pa.field("validator", pa.large_string()),
    ],
    metadata={"format": FORMAT},
)
# A row group has at most so many rows.
GROUP_ROWS = 1_000
# A row group is written once it has so many rows, or bytes before compression.
GROUP = Bounds(rows=GROUP_ROWS, bytes=8 * 1024 * 1024)
COMPRESSION_LEVEL = 3
# What the columns of fixed size and the short texts of a row come to.
_FIXED_BYTES = 200


class ParquetShards:
    """Writes rows to Parquet files; there is a first one even without any row.

    Args:
        folder: an existing folder.
    """

    def __init__(self, folder: Path, bounds: Bounds) -> None:
        self._folder = folder
        self._bounds = bounds
        self._number = 0
        self._whole: list[Shard] = []
        self._group: list[dict[str, Any]] = []
        self._group_bytes = 0
        self._rows = self._bytes = 0
        self._writer: pq.ParquetWriter | None = self._begun()

    def write(self, row: dict[str, Any]) -> None:
        """Append a row."""
        if self._writer is None:
            self._writer = self._begun()
        self._group.append(row)
        size = _size(row)
        self._rows += 1
        self._bytes += size
        self._group_bytes += size
        if self._bounds.reached(self._rows, self._bytes):
            self.finish()
        elif GROUP.reached(len(self._group), self._group_bytes):
            self._flush(self._writer)

    def take(self) -> list[Shard]:
        """Return the files that have become whole since the last call."""
        whole, self._whole = self._whole, []
        return whole

    def finish(self) -> None:
        """Make the last file whole; a row after it begins another."""
        if self._writer is None:
            return
        if self._group:
            self._flush(self._writer)
        self._writer.close()
        self._writer = None
        self._whole.append(whole_shard(self._path, FileKind.OUTPUT))
        self._number += 1
        self._rows = self._bytes = 0

    def _flush(self, writer: pq.ParquetWriter) -> None:
        writer.write_table(pa.Table.from_pylist(self._group, schema=SCHEMA))
        self._group = []
        self._group_bytes = 0

    @property
    def _path(self) -> Path:
        return self._folder / f"part-{self._number:05}.parquet"

    def _begun(self) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._path,
            SCHEMA,
            version="2.6",
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
        )


def _size(row: dict[str, Any]) -> int:
    ids = len(row["prompt_ids"]) + len(row["token_ids"])
    return _FIXED_BYTES + len(row["text"]) + len(row["reference"] or "") + 4 * ids
