"""A root dataset without a coordinator, to ingest into round by round."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.host.engine import Folding, IngestedRows, IngestJob, SourceFile
from odf.engines.host.finish import SliceOrder, finish
from odf.engines.spark.engine import SparkEngine
from odf.metadata.model import (
    DEFAULT_VOCAB,
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    ReadStep,
    ReadStepCsv,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)

SYSTEM_TIME = Timestamp.parse("2030-01-01T00:00:00Z")
SOURCE_TIME = Timestamp.parse("2020-01-01T00:00:00Z")


@dataclass
class Notes:
    """A reporter that remembers."""

    stages: list[tuple[str, int | None]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def progress(self, stage: str, rows: int | None = None) -> None:
        self.stages.append((stage, rows))

    def warning(self, message: str) -> None:
        self.warnings.append(message)


@dataclass(frozen=True)
class Round:
    """What came of one round of ingestion."""

    rows: list[dict[str, Any]]
    ingested: IngestedRows
    schema: pa.Schema
    warnings: list[str]

    @property
    def ops(self) -> tuple[int, int, int, int]:
        """How many rows there are of each operation."""
        return tuple(sum(row["op"] == op for row in self.rows) for op in range(4))  # type: ignore[return-value]


@dataclass
class Ingestor:
    """A root dataset without a coordinator: ingests files and keeps the slices."""

    engine: SparkEngine
    folder: Path
    read: ReadStep = field(default_factory=lambda: ReadStepCsv(header=True))
    merge: MergeStrategy = field(default_factory=MergeStrategyAppend)
    preprocess: TransformSql | None = None
    vocab: DatasetVocabulary = DEFAULT_VOCAB
    next_offset: int = 0
    schema: pa.Schema | None = None
    history: list[str] = field(default_factory=list)
    rounds: int = 0
    stretch: range | None = None

    def text(self, *texts: str, **options: Any) -> Round:
        """Ingest files with these contents."""
        return self.data(*[text.encode() for text in texts], **options)

    def data(self, *contents: bytes, **options: Any) -> Round:
        """Ingest files with these bytes."""
        files = []
        for number, content in enumerate(contents):
            name = "data.csv" if len(contents) == 1 else f"data-{number}.csv"
            path = self.folder / f"source-{self.rounds}-{number}.csv"
            path.write_bytes(content)
            files.append(SourceFile(str(path), name))
        return self.files(files, **options)

    def files(self, files: Sequence[SourceFile], **options: Any) -> Round:
        """Ingest files."""
        self.rounds += 1
        output = self.folder / f"slice-{self.rounds}.parquet"
        job = IngestJob(
            dataset_alias="test",
            files=tuple(files),
            read=self.read,
            preprocess=self.preprocess,
            merge=self.merge,
            vocab=self.vocab,
            system_time=SYSTEM_TIME,
            source_event_time=SOURCE_TIME,
            next_offset=self.next_offset,
            dataset_schema=self.schema,
            history_paths=tuple(self.history),
            output_path=str(output),
            scratch=self.folder / f"scratch-{self.rounds}",
            allow_retract=False,
            allow_empty=False,
            max_retract_share=0.5,
            min_rows_for_retract_guard=20,
        )
        job = replace(job, folding=self._folding(), **options)
        notes = Notes()
        ingested = self.engine.ingest(job, notes)
        order = SliceOrder(self.vocab, self.next_offset, job.system_time, output, from_query=False)
        finished = finish(ingested.rows, order)
        rows: list[dict[str, Any]] = []
        new: list[str] = []
        if output.exists():
            rows = pq.read_table(output).to_pylist()
            new.append(str(output))
            self.next_offset += len(rows)
            self.schema = finished.schema
        if job.folding is not None and self.stretch is not None:
            self.history[self.stretch.start : self.stretch.stop] = [job.folding.output_path]
            self.stretch = None
        self.history += new
        return Round(rows, ingested, finished.schema, notes.warnings)

    def _folding(self) -> Folding | None:
        """What `stretch` asks for: to fold these files of the history in the next round."""
        if self.stretch is None:
            return None
        output = self.folder / f"folded-{self.rounds}.parquet"
        return Folding(self.stretch.start, len(self.stretch), str(output))


def sql(*queries: str, **steps: str) -> TransformSql:
    """Write a query: steps with their aliases, and the last one."""
    named = [SqlQueryStep(alias=alias, query=query) for alias, query in steps.items()]
    return TransformSql("spark", queries=(*named, *(SqlQueryStep(query=q) for q in queries)))
