"""The table of groups in the state of a changing query, and the new rows with their weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.engines.host.engine import HIDDEN_PREFIX
from odf.engines.spark.merge.frames import quoted, read_parquet
from odf.engines.spark.parts import PartWriter
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.checkpoint import StateMismatchError
from odf.engines.spark.stateful.net import find_net
from odf.engines.spark.stateful.tables import NO_POSITIONS, write_table
from odf.errors import BadInputError
from odf.metadata.model import DatasetVocabulary, OperationType

WEIGHT_COLUMN: Final = f"{HIDDEN_PREFIX}weight"
"""Hidden column of the views of new rows: 1, or -1 for a retraction."""

GROUPS: Final = "groups"
"""Name of the table in the state."""

_KEY, _VALUE = "key ", "column "


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The table of groups as a state has it.

    Attributes:
        way: What is kept of the rows of a group.
        path: The file.
        labels: What its columns are, in their order.
    """

    way: str
    path: Path
    labels: tuple[str, ...]

    @classmethod
    def of(cls, run: StatefulRun) -> Self | None:
        """Return the table that the last run left, or None if there was none.

        Raises:
            BadInputError: The state is damaged.
        """
        if run.state is None:
            return None
        way, labels = run.state.meta.get("way"), run.state.meta.get("columns")
        path = run.state.tables.get(GROUPS)
        if (
            path is None
            or not isinstance(way, str)
            or not isinstance(labels, list)
            or not all(isinstance(label, str) for label in labels)
            or len(set(labels)) != len(labels)
        ):
            raise _damaged("it has no table of groups, or does not say what is in it")
        return cls(way, path, tuple(labels))

    def fitted(self, labels: Sequence[str], schema: pa.Schema, target: Path) -> Path:
        """Return the table with the columns that are wanted; keys and columns may be new.

        Args:
            labels: What the columns are to be.
            schema: Their names and types.
            target: A file to make if the table has to be written anew.

        Raises:
            StateMismatchError: It has columns that are not wanted, or lacks partial results.
            BadInputError: It is damaged.
        """
        found = self._schema()
        names = dict(zip(self.labels, found.names, strict=True))
        gone = [label for label in self.labels if label not in labels]
        lacks = [
            label for label in labels if label not in names and not label.startswith((_KEY, _VALUE))
        ]
        if gone or lacks:
            raise StateMismatchError(
                f"the checkpoint belongs to another query: it keeps {(gone or ['less'])[0]!r}, "
                f"this one {(lacks or ['less'])[0]!r}",
                reason="state",
                hint="reset the dataset to compute it anew",
            )
        for label, field in zip(labels, schema, strict=True):
            name = names.get(label)
            if name is not None and found.field(name).type != field.type:
                raise _damaged(f"{label!r} has the type {found.field(name).type}")
        if self.labels == tuple(labels) and found.names == schema.names:
            return self.path
        rows = self._batches([names.get(label) for label in labels], schema)
        write_table(target, schema, None, NO_POSITIONS, rows)
        return target

    def _schema(self) -> pa.Schema:
        try:
            found = pq.read_schema(self.path)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(f"the table of groups: {error}") from error
        if len(found) != len(self.labels) or len(set(found.names)) != len(found):
            raise _damaged("the table of groups has other columns than it says")
        return found

    def _batches(self, names: Sequence[str | None], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.path, memory_map=True) as file:
            for batch in file.iter_batches():
                columns = [
                    pa.nulls(batch.num_rows, field.type) if name is None else batch.column(name)
                    for name, field in zip(names, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def key_labels(names: Sequence[str]) -> list[str]:
    """Return the labels of key columns."""
    return [_KEY + name for name in names]


def value_labels(names: Sequence[str]) -> list[str]:
    """Return the labels of columns of the result."""
    return [_VALUE + name for name in names]


def group_meta(way: str, labels: Sequence[str]) -> dict[str, Any]:
    """Return what a state says about its table of groups."""
    return {"way": way, "columns": list(labels)}


def register_weighted(run: StatefulRun) -> bool:
    """Make the new rows views of the inputs: all as appended rows, with hidden weights.

    Rows that are retracted in the same run are left out together with their retractions.

    Args:
        run: The run.

    Returns:
        Whether some row is retracted.
    """
    retracting = f"{int(OperationType.RETRACT)}, {int(OperationType.CORRECT_FROM)}"
    retracts = False
    for number, (view, given) in enumerate(zip(run.inputs, run.new, strict=True)):
        operation = view.vocab.operation_type_column
        columns = [
            f"{int(OperationType.APPEND)} AS {quoted(name)}" if name == operation else quoted(name)
            for name in given.schema.names
        ]
        weight = f"IF({quoted(operation)} IN ({retracting}), -1L, 1L) AS {WEIGHT_COLUMN}"
        target = run.job.scratch / f"settled-{number}.parquet"
        path, some = _settled(Path(given.path), given.schema, view.vocab, target)
        retracts = retracts or some
        frame = read_parquet(run.spark, [str(path)], given.schema).selectExpr(*columns, weight)
        visible = frame.select(*[quoted(name) for name in given.schema.names])
        visible.createOrReplaceTempView(quoted(given.alias))
    return retracts


def _settled(
    path: Path, schema: pa.Schema, vocab: DatasetVocabulary, target: Path
) -> tuple[Path, bool]:
    """Return the rows that a run leaves, retractions of rows of earlier runs among them."""

    def read() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield from file.iter_batches()

    net = find_net(lambda: iter(()), read, vocab)
    if net.gone is None:
        return path, False
    if net.retracted:
        gone = net.gone.filter(pc.invert(pc.is_in(net.gone, value_set=net.dangling)))
        with PartWriter(str(target), schema) as writer:
            for batch in read():
                offsets = batch.column(vocab.offset_column)
                writer.write(batch.filter(pc.invert(pc.is_in(offsets, value_set=gone))))
        return target, True
    return path, True


def _damaged(why: str) -> BadInputError:
    return BadInputError(
        f"the checkpoint is damaged: {why}",
        reason="checkpoint",
        hint="get it again from where it came from, or reset the dataset to compute it anew",
    )
