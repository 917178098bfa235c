"""What every stateful query has while it runs: rows, views, watermarks, state."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.engines.host.engine import InputView, TransformJob
from odf.engines.host.views import fit_batch
from odf.engines.spark.catalyst import Catalyst
from odf.engines.spark.parts import PartWriter
from odf.engines.spark.query.inputs import PreparedInput, register
from odf.engines.spark.query.text import same_text
from odf.engines.spark.query.validate import Analysed, analyse_again
from odf.engines.spark.stateful.checkpoint import (
    State,
    StateKey,
    columns_of,
    digest,
    refusing_damage,
    save_state,
    vocabulary_json,
)
from odf.engines.spark.stateful.kinds import Classified, QueryInput, Question
from odf.engines.spark.stateful.lateness import Marks, Steps, common_watermark
from odf.engines.spark.stateful.net import Net, current, find_net
from odf.errors import BadInputError
from odf.metadata.model import DatasetVocabulary, TransformSql
from odf.protocol.releases import SPARK_RELEASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE_FOLDER: Final = "state"


class StatefulRun:
    """One run of a stateful query.

    Args:
        spark: The session, with a view of the new rows of each input.
        job: What the host wants.
        new: The new rows of each input, in the order of their offsets.
        classified: The query.
        result: Schema of its result.

    Attributes:
        spark: The session.
        catalyst: Spark's analyser.
        job: What the host wants.
        new: The new rows of each input, with their operations.
        classified: The query, analysed over views of the new rows.
        result: Schema of its result, with the types of a slice.
        state: What the last run left, or None if there was none.
        watermark_ms: Event time up to which all rows of all inputs are there, in milliseconds;
            None if some input has no watermark.
        previous_watermark_ms: The same at the end of the last run.
    """

    def __init__(
        self,
        spark: "SparkSession",
        job: TransformJob,
        new: tuple[PreparedInput, ...],
        classified: Classified,
        result: pa.Schema,
    ) -> None:
        self.spark = spark
        self.catalyst = Catalyst(spark)
        self.job = job
        self.new = new
        self.classified = classified
        self.result = result
        schemas = tuple(given.schema for given in new)
        self._key = state_key(job.transform, job.inputs, job.vocab, classified, schemas, result)
        self.state = State.load(job.prev_checkpoint, self._key, job.scratch / _STATE_FOLDER)
        self._steps, self.previous_watermark_ms = self._course()
        reached = common_watermark(self._steps)
        known = [mark for mark in (reached, self.previous_watermark_ms) if mark is not None]
        self.watermark_ms = max(known) if known else None

    @property
    def inputs(self) -> tuple[InputView, ...]:
        """The inputs, as the host gave them."""
        return self.job.inputs

    def retained(self, number: int, name: str) -> Path | None:
        """Return a table of the last state that holds rows of an input, all columns of it.

        Args:
            number: Which input.
            name: Name of the table.

        Raises:
            BadInputError: It has other columns.
        """
        if self.state is None:
            return None
        return self.state.table(name, self.new[number].schema)

    def live_view(self, number: int, retained: Path | None, *, drop_late: bool) -> PreparedInput:
        """Bring the retained and the new rows of an input together.

        Args:
            number: Which input.
            retained: A Parquet file of rows of earlier runs, current ones only, in the order of
                their offsets, or None.
            drop_late: Whether late rows, and rows without an event time, are left out; they are
                counted in the log.

        Returns:
            A file of the current rows in the order of their offsets, all as appended rows.
        """
        view, given = self.inputs[number], self.new[number]
        path = str(self.timely(number)) if drop_late else given.path
        net = find_net(
            lambda: _read_kept(retained, given.schema),
            lambda: read_rows(Path(path), given.schema),
            view.vocab,
        )
        self._tell_net(view, net)
        target = self.job.scratch / f"live-{number}.parquet"
        rows = 0
        with PartWriter(str(target), given.schema) as writer:
            for batch in chain(
                _read_kept(retained, given.schema), read_rows(Path(path), given.schema)
            ):
                left = current(batch, net, view.vocab)
                writer.write(left)
                rows += left.num_rows
        return PreparedInput(view.alias, str(target), given.schema, rows)

    def timely(self, number: int) -> Path:
        """Return a file of the new rows of an input, with their operations, but the late ones.

        Rows without an event time are left out, too; both are counted in the log.

        Args:
            number: Which input.
        """
        path = self.job.scratch / f"timely-{number}.parquet"
        if not path.exists():
            self._write_timely(number, str(path))
        return path

    def register_views(self, *prepared: PreparedInput) -> None:
        """Make files the views of the inputs that they are of."""
        for given in prepared:
            register(self.spark, given)

    def analyse(self) -> Analysed:
        """Analyse the query over the views that are registered."""
        names = [view.alias for view in self.inputs]
        return analyse_again(self.spark, self.job.transform, names)

    def question(self, analysed: Analysed) -> Question:
        """Return what a kind of query needs to look at an analysed query again."""
        return Question(
            self.catalyst,
            analysed,
            tuple(QueryInput(view.alias, view.vocab) for view in self.inputs),
            self.job.vocab,
            self.job.transform,
        )

    def save(self, meta: Mapping[str, Any], tables: Mapping[str, pa.Table | Path]) -> None:
        """Write the new state.

        Args:
            meta: What the kind of query notes; JSON.
            tables: Tables, or Parquet files, by name: small letters, digits and dashes.
        """
        if self.job.new_checkpoint is None:
            return
        frame = {
            "reached": self.watermark_ms,
            "inputs": [
                {"alias": view.alias, **steps.marks().to_json()}
                for view, steps in zip(self.inputs, self._steps, strict=True)
            ],
        }
        save_state(self.job.new_checkpoint, self._key, meta, frame, tables)

    def _course(self) -> tuple[tuple[Steps, ...], int | None]:
        """Return how the watermarks rose in this run, and where they stood before."""
        memory, reached = [Marks() for _ in self.inputs], None
        if self.state is not None:
            memory, reached = _remembered(self.state.frame, len(self.inputs))
        steps = tuple(
            marks.with_new(view.watermarks) for marks, view in zip(memory, self.inputs, strict=True)
        )
        return steps, reached

    def _write_timely(self, number: int, path: str) -> None:
        view, given = self.inputs[number], self.new[number]
        late = timeless = total = 0
        with PartWriter(path, given.schema) as writer:
            for batch in read_rows(Path(given.path), given.schema):
                event_times = batch.column(view.vocab.event_time_column)
                is_late = self._steps[number].is_late(
                    batch.column(view.vocab.system_time_column), event_times
                )
                late += pc.sum(is_late).as_py() or 0
                timeless += event_times.null_count
                total += batch.num_rows
                # A filter drops rows of which it is not known whether they are late.
                writer.write(batch.filter(pc.invert(is_late)))
        if late:
            self.job.log(
                f"input {view.alias!r}: {late} of {total} rows came late (their event time is not "
                "after the watermark that was in force before them) and are left out"
            )
        if timeless:
            self.job.log(
                f"input {view.alias!r}: {timeless} of {total} rows have no event time and are "
                "left out"
            )

    def _tell_net(self, view: InputView, net: Net) -> None:
        if net.unmatched:
            self.job.log(
                f"input {view.alias!r}: {net.unmatched} retractions are of rows that are not "
                "there (late, or never appended) and are left out"
            )


def state_key(
    transform: TransformSql,
    inputs: tuple[InputView, ...] | tuple[QueryInput, ...],
    vocab: DatasetVocabulary,
    classified: Classified,
    schemas: tuple[pa.Schema, ...],
    result: pa.Schema,
) -> StateKey:
    """Return what the state of a query is of.

    Args:
        transform: The query.
        inputs: Its inputs, for their names and vocabularies.
        vocab: Vocabulary of the result.
        classified: What kind of query it is.
        schemas: Columns of the inputs' views.
        result: Columns of the result.
    """
    steps = [[step.alias, same_text(step.query)] for step in transform.queries or ()]
    temporal = [[table.name, list(table.primary_key)] for table in transform.temporal_tables or ()]
    views = [[given.alias.casefold(), vocabulary_json(given.vocab)] for given in inputs]
    query = digest(steps, temporal, views, vocabulary_json(vocab))
    return StateKey(
        SPARK_RELEASE,
        str(classified.kind),
        query,
        tuple(columns_of(schema) for schema in schemas),
        columns_of(result),
    )


def _remembered(frame: Mapping[str, Any], inputs: int) -> tuple[list[Marks], int | None]:
    try:
        reached, found = frame["reached"], frame["inputs"]
        if (reached is not None and type(reached) is not int) or len(found) != inputs:
            raise ValueError(f"wanted a number and {inputs} inputs")  # noqa: TRY301  # as below
        names = ("highest", "reached_at", "before")
        return [Marks.from_json({name: item.get(name) for name in names}) for item in found], (
            reached
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInputError(
            f"the checkpoint is damaged: its watermarks cannot be read ({error})",
            reason="checkpoint",
        ) from error


def _read_kept(path: Path | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read rows of a checkpoint, which may come from anywhere."""
    if path is not None:
        with refusing_damage("its rows"):
            yield from read_rows(path, schema)


def read_rows(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file in the columns of a schema."""
    with pq.ParquetFile(path, memory_map=True) as file:
        for batch in file.iter_batches(batch_size=128 * 1024):
            yield fit_batch(batch, schema)
