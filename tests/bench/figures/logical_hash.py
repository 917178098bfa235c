"""The logical hash of a table."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from odf.data.digest import logical_hash
from odf.data.row_bytes import pieces, raw_values, row_bytes
from tests.bench import data
from tests.bench.figure import Contestant, Figure, Goal, Rate, Sample, Setup
from tests.bench.hashing import hash_halves
from tests.bench.timing import timed
from tests.bench.workbench import Workbench

_MB = 1_000_000
_PROBE_ROWS = 100_000


class LogicalHash(Figure):
    """Throughput of arrow-digest."""

    name: ClassVar = "logical-hash"
    title: ClassVar = "Logical hash of a table"
    compares: ClassVar = (
        "`logical_hash` over a table in memory (numbers, times, booleans, short and long texts, "
        "nulls), in this process; the yardstick hashes the same bytes, which the rule of the "
        "logical hash makes of the table, laid end to end beforehand, as two halves with "
        "`hashlib.sha3_256` on two threads. The megabytes are these bytes: about an eighth more "
        "than Arrow's buffers have, because the rule puts eight bytes before every text where a "
        "buffer has four for its offset."
    )
    goals: ClassVar = (Goal(1.25, "ratio"),)

    def prepare(self, bench: Workbench) -> Setup:
        """Make the table and its bytes."""
        wanted = bench.sizes.table_mb * _MB
        row = data.table(_PROBE_ROWS, 1).nbytes / _PROBE_ROWS
        table = data.table(int(wanted / row), bench.options.seed)
        batches = table.combine_chunks().to_batches(max_chunksize=65_536)
        raw = _hashed_bytes(batches)
        self._first = logical_hash(table.schema, batches)

        def ours() -> Sample:
            return timed(lambda: logical_hash(table.schema, batches))

        contestants = [
            Contestant("odf", ours),
            Contestant("hashlib.sha3_256, 2 threads", lambda: timed(lambda: hash_halves(raw))),
        ]
        size = f"{len(raw) / _MB:.0f} MB, {len(table):,} rows"
        return Setup(contestants, size, Rate("MB/s", len(raw) / _MB))

    def conclude(self) -> Mapping[str, float]:
        """Nothing more is known."""
        return {}


def _hashed_bytes(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return what is hashed, column by column; this table has plain columns only."""
    parts: list[memoryview] = []
    for column in range(batches[0].num_columns):
        for batch in batches:
            array = batch.column(column)
            raw = raw_values(array)
            parts += [raw] if raw is not None else map(row_bytes, pieces(array))
    return b"".join(parts)
