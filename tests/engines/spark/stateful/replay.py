"""Runs a transform over blocks of inputs, in any grouping, with real slices and checkpoints."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.host.engine import InputView, InputWatermark, TransformJob
from odf.engines.spark.engine import SparkEngine
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary, TransformSql

MOMENT = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of an input. Rows are values of its data columns; `op` may be among them."""

    alias: str
    rows: tuple[Mapping[str, Any], ...] = ()
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What an input looks like. Data columns include the event time, under its name."""

    columns: pa.Schema
    vocab: DatasetVocabulary = DEFAULT_VOCAB

    @property
    def schema(self) -> pa.Schema:
        vocab = self.vocab
        system = [
            (vocab.offset_column, pa.int64()),
            (vocab.operation_type_column, pa.int32()),
            (vocab.system_time_column, MOMENT),
        ]
        return pa.schema([*system, *self.columns])


@dataclass(slots=True)
class Progress:
    offset: int = 0
    marks: list[InputWatermark] = field(default_factory=list)


class Replay:
    """One derivative dataset.

    Every run finds its last checkpoint in another folder than the one where it was written.
    """

    def __init__(
        self,
        engine: SparkEngine,
        folder: Path,
        query: TransformSql,
        shapes: Mapping[str, Shape],
        vocab: DatasetVocabulary = DEFAULT_VOCAB,
    ) -> None:
        self.engine = engine
        self.query = query
        self.shapes = dict(shapes)
        self.vocab = vocab
        self.log: list[str] = []
        self.checkpoint: Path | None = None
        self.runs = 0
        self._folder = folder
        self._progress = {alias: Progress() for alias in shapes}
        folder.mkdir(parents=True)

    def begin_at(self, offset: int) -> None:
        """Leave out what inputs had before an offset."""
        for progress in self._progress.values():
            progress.offset = offset

    def run(self, blocks: Iterable[tuple[int, Block]]) -> list[dict[str, Any]]:
        """Run over blocks, each with its system time."""
        self.runs += 1
        folder = self._folder / f"run-{self.runs}"
        folder.mkdir()
        taken: dict[str, list[tuple[int, Block]]] = {alias: [] for alias in self.shapes}
        for time, block in blocks:
            taken[block.alias].append((time, block))
        views = tuple(self._view(alias, taken[alias], folder) for alias in self.shapes)
        before = None
        if self.checkpoint is not None:
            before = folder / "moved"
            shutil.move(self.checkpoint, before)
        new = folder / "checkpoint"
        job = TransformJob(
            self.query, views, self.vocab, folder / "scratch", before, new, self.log.append
        )
        made = self.engine.transform(job)
        rows = [row for batch in made.batches for row in batch.to_pylist()]
        self.checkpoint = new if new.exists() else None
        return rows

    def _view(self, alias: str, blocks: list[tuple[int, Block]], folder: Path) -> InputView:
        shape, progress = self.shapes[alias], self._progress[alias]
        first, paths = progress.offset, []
        marks = []
        for number, (time, block) in enumerate(blocks):
            if block.rows:
                path = folder / f"{alias}-{number}.parquet"
                pq.write_table(_slice(shape, block.rows, progress.offset, time), path)
                paths.append(str(path))
                progress.offset += len(block.rows)
            if block.watermark is not None:
                marks.append(InputWatermark(time, block.watermark))
        schema = folder / f"{alias}-schema.parquet"
        pq.write_table(shape.schema.empty_table(), schema)
        # The coordinator repeats the last watermark of an idle input.
        progress.marks = marks or progress.marks[-1:]
        return InputView(
            alias,
            tuple(paths),
            str(schema),
            shape.vocab,
            first if paths else None,
            progress.offset - 1 if paths else None,
            tuple(progress.marks),
        )


def _slice(shape: Shape, rows: Sequence[Mapping[str, Any]], offset: int, time: int) -> pa.Table:
    vocab, schema = shape.vocab, shape.schema
    made: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in schema.names}
    made[vocab.offset_column] = list(range(offset, offset + len(rows)))
    made[vocab.operation_type_column] = [row.get("op", 0) for row in rows]
    made[vocab.system_time_column] = [time] * len(rows)
    return pa.table(made, schema)


def in_runs(
    engine: SparkEngine,
    folder: Path,
    query: TransformSql,
    shapes: Mapping[str, Shape],
    runs: Sequence[Sequence[tuple[int, Block]]],
    vocab: DatasetVocabulary = DEFAULT_VOCAB,
) -> tuple[list[dict[str, Any]], Replay]:
    """Run a transform over groups of blocks; return all rows that it gave, and the dataset."""
    replay = Replay(engine, folder, query, shapes, vocab)
    rows = [row for blocks in runs for row in replay.run(blocks)]
    return rows, replay
