"""Inputs as blocks, grouped into runs of a query in any way, with the checkpoint moved between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.host.engine import InputView, InputWatermark, TransformJob
from odf.engines.spark.engine import SparkEngine
from odf.metadata.model import DatasetVocabulary, SqlQueryStep, TemporalTable, TransformSql

MS = pa.timestamp("ms", "UTC")
VOCAB = DatasetVocabulary("offset", "op", "system_time", "event_time")


@dataclass(frozen=True)
class Block:
    """Rows of an input that came together, as (op, event time, values…), and a watermark.

    Attributes:
        at: System time, in milliseconds.
        rows: The rows.
        watermark: The watermark of the block, if it has one.
    """

    at: int
    rows: tuple[tuple[Any, ...], ...] = ()
    watermark: int | None = None


@dataclass(frozen=True)
class Source:
    """An input.

    Attributes:
        alias: Name of its view.
        columns: Names and types of its columns behind the event time.
        blocks: What it has, in the order of system times.
        vocab: Names of its system columns.
        time: Type of its event time.
        grown: The block from which on it has its last column; from the first if None.
    """

    alias: str
    columns: Mapping[str, pa.DataType]
    blocks: tuple[Block, ...]
    vocab: DatasetVocabulary = VOCAB
    time: pa.DataType = MS
    grown: int | None = None

    def _as_it_was(self, table: pa.Table, block: int) -> pa.Table:
        few = self.grown is not None and block < self.grown
        return table.drop_columns(table.schema.names[-1:]) if few else table

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                (self.vocab.offset_column, pa.int64()),
                (self.vocab.operation_type_column, pa.int32()),
                (self.vocab.system_time_column, MS),
                (self.vocab.event_time_column, self.time),
                *self.columns.items(),
            ]
        )

    def first_offset(self, block: int) -> int:
        return sum(len(one.rows) for one in self.blocks[:block])

    def table(self, block: int) -> pa.Table:
        """The rows of a block, as a slice has them."""
        rows = self.blocks[block].rows
        start = self.first_offset(block)
        system = [range(start, start + len(rows)), [row[0] for row in rows]]
        system.append([self.blocks[block].at] * len(rows))
        values = [[row[number + 1] for row in rows] for number in range(len(self.columns) + 1)]
        arrays = [
            pa.array(list(column), one.type)
            for column, one in zip([*system, *values], self.schema, strict=True)
        ]
        return self._as_it_was(pa.Table.from_arrays(arrays, schema=self.schema), block)

    def view(self, folder: Path, first: int, last: int) -> InputView:
        """What a run gets that has the blocks from `first` up to before `last`."""
        folder.mkdir(parents=True, exist_ok=True)
        empty = folder / f"{self.alias}-schema.parquet"
        pq.write_table(self._as_it_was(self.schema.empty_table(), last - 1), empty)
        paths = []
        for block in range(first, last):
            if self.blocks[block].rows:
                paths.append(str(folder / f"{self.alias}-{block}.parquet"))
                pq.write_table(self.table(block), paths[-1])
        rows = self.first_offset(first), self.first_offset(last) - 1
        marks = [block for block in self.blocks[first:last] if block.watermark is not None]
        if first == last:  # the coordinator repeats the last watermark of an idle input
            marks = [block for block in self.blocks[:first] if block.watermark is not None][-1:]
        return InputView(
            alias=self.alias,
            paths=tuple(paths),
            schema_path=str(empty),
            vocab=self.vocab,
            offset_start=rows[0] if paths else None,
            offset_end=rows[1] if paths else None,
            watermarks=tuple(InputWatermark(block.at, block.watermark or 0) for block in marks),
        )


@dataclass
class Ran:
    """What came of some runs.

    Attributes:
        tables: The result of each run.
        checkpoints: The state after each run.
        log: What the engine said.
    """

    tables: list[pa.Table] = field(default_factory=list)
    checkpoints: list[Path] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows, run after run."""
        return [row for table in self.tables for row in rows_of(table)]

    @property
    def multiset(self) -> list[str]:
        """All rows, in an order of their own."""
        return sorted(map(repr, self.rows))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table, timestamps as milliseconds and days as days since 1970."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(MS).cast(pa.int64())  # noqa: PLW2901  # one type for all
        elif pa.types.is_date(column.type):
            column = column.cast(pa.int32())  # noqa: PLW2901  # one type for all
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def transform(
    *queries: str | tuple[str, str], tables: Mapping[str, Sequence[str]] | None = None
) -> TransformSql:
    """A query, its earlier steps as (alias, query)."""
    steps = [
        SqlQueryStep(alias=None, query=one) if isinstance(one, str) else _step(*one)
        for one in queries
    ]
    temporal = [TemporalTable(name, tuple(key)) for name, key in (tables or {}).items()]
    return TransformSql("spark", queries=tuple(steps), temporal_tables=tuple(temporal) or None)


def _step(alias: str, query: str) -> SqlQueryStep:
    return SqlQueryStep(alias=alias, query=query)


def run(
    engine: SparkEngine,
    folder: Path,
    query: TransformSql,
    sources: Sequence[Source],
    cuts: Sequence[Sequence[int]] = (),
) -> Ran:
    """Run a query over the blocks of its inputs.

    Args:
        engine: The engine.
        folder: An empty folder.
        query: The query.
        sources: Its inputs.
        cuts: For each run but the last how many blocks of each input it and those before it have.
    """
    ran = Ran()
    ends = [*cuts, [len(source.blocks) for source in sources]]
    starts = [[0] * len(sources), *cuts]
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        here = folder / f"run-{number}"
        here.mkdir(parents=True)
        before = None
        if ran.checkpoints:
            before = here / "before"
            before.write_bytes(ran.checkpoints[-1].read_bytes())
        after = here / "after"
        job = TransformJob(
            transform=query,
            inputs=tuple(
                source.view(here, *span) for source, *span in zip(sources, first, last, strict=True)
            ),
            vocab=VOCAB,
            scratch=here / "scratch",
            prev_checkpoint=before,
            new_checkpoint=after,
            log=ran.log.append,
        )
        rows = engine.transform(job)
        ran.tables.append(pa.Table.from_batches(rows.batches, rows.schema))
        ran.checkpoints.append(after)
    return ran
