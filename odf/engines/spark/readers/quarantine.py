"""Rows that cannot be read, set aside in a file that a person can read, so that the others go on.

Reading tries without first, which costs nothing where all rows are good. Only the ranges of a file
that hold bad rows are read a second time, by tasks that keep the good rows and write down the
others: one JSON object a line, with the file, the place, the first thing that is wrong with the
row as `column`, `value`, `wanted` and `problem`, further ones under `also`, and the text of the
row as `raw`.

Under a snapshot a row that is set aside is not gone: what the dataset has under its key stays. So
its key must be known, and it is kept here.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, Self

import pyarrow as pa

from odf.data.types import conform, slice_type
from odf.engines.host.engine import IngestedRows, IngestJob, Rows
from odf.engines.spark.merge.layout import NewRows
from odf.errors import BadInputError
from odf.limits import MAX_SET_ASIDE_ROWS
from odf.metadata.model import MergeStrategySnapshot, OperationType
from odf.protocol.calls import IngestHalf

_COPY: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a row.

    Attributes:
        said: In words, as in error messages.
        column: The column; None if it is the row as a whole.
        value: What stands there, as JSON can hold it.
        wanted: What should stand there.
    """

    said: str
    column: str | None = None
    value: object = None
    wanted: str | None = None


@dataclass(slots=True)
class Cleaned:
    """What came of a second look at a range.

    Attributes:
        index: Which one.
        rows: Good rows, which were written to its part.
        bad: Rows that were set aside.
        keys: Key columns of those whose key can be read; None if there is no such row.
        without_key: Where the first row is whose key cannot be read; None if there is none.
        too_many: The look was given up, because there are more bad rows than anybody repairs.
    """

    index: int
    rows: int = 0
    bad: int = 0
    keys: pa.Table | None = None
    without_key: str | None = None
    too_many: bool = False

    def add_keys(self, rows: pa.Table, labels: Sequence[str]) -> None:
        """Note the keys of bad rows; null stands for what cannot be read.

        Args:
            rows: The key columns.
            labels: Where each of the rows is.
        """
        if not rows.num_columns:
            return
        known = []
        for position, row in enumerate(zip(*(c.to_pylist() for c in rows.columns), strict=True)):
            if None not in row:
                known.append(position)
            elif self.without_key is None:
                self.without_key = labels[position]
        if known:
            good = rows.take(known)
            self.keys = good if self.keys is None else pa.concat_tables([self.keys, good])


class AsideWriter:
    """Writes down the bad rows of one range; runs in Spark's Python workers.

    Args:
        path: The file to make.
        goes_on: The file is there already, and is written to behind its end.
    """

    def __init__(self, path: str, *, goes_on: bool = False) -> None:
        mode = "a" if goes_on else "w"
        self._file: IO[str] = Path(path).open(mode, encoding="utf-8")  # noqa: SIM115  # see __exit__

    def write(self, where: Mapping[str, object], faults: Sequence[Fault], raw: str | None) -> None:
        """Write down one row.

        Args:
            where: The file and the place in it.
            faults: What is wrong; at least one thing.
            raw: The text of the row, where there is one.
        """
        first, *others = faults
        entry = {
            **where,
            **_described(first),
            "also": [_described(fault) for fault in others],
            "raw": raw,
        }
        self._file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Quarantine:
    """All rows of one ingest that are set aside.

    Args:
        folder: Where tasks write them down.
        keys: Names of the columns whose values have to be kept.
    """

    def __init__(self, folder: Path, keys: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._names = {name.casefold() for name in keys}
        self._files: list[str] = []
        self._keys: list[pa.Table] = []
        self._without_key: str | None = None
        self.rows = 0

    def key_positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return which of some columns are kept; all key columns are, or none."""
        found = tuple(n for n, name in enumerate(names) if name.casefold() in self._names)
        return found if len(found) == len(self._names) else ()

    def place(self, index: int) -> str:
        """Return the file for the bad rows of a range."""
        return str(self._folder / f"aside-{index:06}.ndjson")

    def take(self, cleaned: Iterable[Cleaned]) -> int:
        """Take note of what tasks have set aside, in the order of the ranges.

        Returns:
            The good rows of these ranges.

        Raises:
            BadInputError: There are too many bad rows.
        """
        good = 0
        for one in cleaned:
            if one.too_many:
                raise BadInputError(
                    f"more than {MAX_SET_ASIDE_ROWS} rows of a file cannot be read; nothing was "
                    "ingested",
                    reason="bad_rows",
                    hint="this is more than a few bad rows: check `schema`, `separator` and "
                    "`encoding`",
                )
            good += one.rows
            self.rows += one.bad
            self._files.append(self.place(one.index))
            self._without_key = self._without_key or one.without_key
            if one.keys is not None:
                self._keys.append(one.keys)
        return good

    def write(self, path: str) -> None:
        """Write all rows that were set aside to one file; none if there are none."""
        if not self.rows:
            return
        with Path(path).open("xb") as target:
            for name in self._files:
                with Path(name).open("rb") as source:
                    while piece := source.read(_COPY):
                        target.write(piece)

    def check(self, job: IngestJob, new: NewRows) -> None:
        """Refuse to go on where it is not known which rows of the dataset must stay.

        Args:
            job: The ingest.
            new: The rows as they were read.

        Raises:
            BadInputError: Under a snapshot, if keys of bad rows cannot be read.
        """
        if not self.rows or not isinstance(job.merge, MergeStrategySnapshot):
            return
        if job.preprocess is not None or job.half is not IngestHalf.WHOLE:
            raise _refused(self.rows, "the preprocess query makes the keys, and it never saw them")
        missing = self._names - {name.casefold() for name in new.parts.schema.names}
        if missing:
            return  # the merge says so, better
        if self._without_key is not None:
            raise _refused(self.rows, f"the key of {self._without_key} cannot be read")
        twice = self._keys_among(new)
        if twice is not None:
            raise _refused(self.rows, f"a good row has the key {twice} of one of them")

    def kept(self, merged: IngestedRows, job: IngestJob) -> IngestedRows:
        """Return a merge's result without the retractions of rows that were set aside."""
        merged = replace(merged, bad_rows=self.rows)
        if not self.rows or not isinstance(job.merge, MergeStrategySnapshot):
            return merged
        schema = merged.rows.schema
        names = [name for name in schema.names if name.casefold() in self._names]
        types = [schema.field(name).type for name in names]
        keys = {key for table in self._keys for key in _keys_of(table, names, types)}
        op = job.vocab.operation_type_column
        batches = (_without(batch, op, names, keys) for batch in merged.rows.batches)
        return replace(merged, rows=Rows(schema, batches))

    def _keys_among(self, new: NewRows) -> str | None:
        """Return a key that a good row has, too."""
        wanted = pa.concat_tables(self._keys)
        for table in new.parts.tables(wanted.column_names):
            found = table.join(wanted, wanted.column_names, join_type="left semi")
            if found.num_rows:
                return ", ".join(
                    f"`{k}` = {v!r}" for k, v in found.slice(0, 1).to_pylist()[0].items()
                )
        return None


def open_quarantine(job: IngestJob) -> Quarantine | None:
    """Return the quarantine of an ingest, if its bad rows are to be set aside."""
    if job.quarantine_path is None or job.half is IngestHalf.MERGE:
        return None
    keys = job.merge.primary_key if isinstance(job.merge, MergeStrategySnapshot) else ()
    return Quarantine(job.scratch / "aside", keys)


def leave_out(batch: pa.RecordBatch, places: Iterable[int]) -> pa.RecordBatch:
    """Return a batch without some of its rows."""
    gone = set(places)
    return batch.filter(pa.array([row not in gone for row in range(batch.num_rows)], pa.bool_()))


def _described(fault: Fault) -> dict[str, object]:
    return {
        "column": fault.column,
        "value": fault.value,
        "wanted": fault.wanted,
        "problem": fault.said,
    }


def _refused(rows: int, why: str) -> BadInputError:
    return BadInputError(
        f"{rows} bad row{'s' if rows > 1 else ''} cannot be set aside under a snapshot: {why}, so "
        "it is not known which rows of the dataset have to stay; nothing was ingested",
        reason="bad_rows",
        hint="correct the source; without --on-bad-rows quarantine the error lists the bad rows",
    )


def _keys_of(
    table: pa.Table, names: Sequence[str], types: Sequence[pa.DataType]
) -> Iterator[tuple[object, ...]]:
    by_name = {name.casefold(): name for name in table.column_names}
    columns = []
    for name, target in zip(names, types, strict=True):
        values = table.column(by_name[name.casefold()]).combine_chunks()
        columns.append(conform(values, slice_type(target)).to_pylist())
    return zip(*columns, strict=True)


def _without(
    batch: pa.RecordBatch, op: str, names: Sequence[str], keys: set[tuple[object, ...]]
) -> pa.RecordBatch:
    """Leave out retractions of some keys."""
    operations = batch.column(op).to_pylist()
    rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    stays = [
        not (operation == OperationType.RETRACT and key in keys)
        for operation, key in zip(operations, rows, strict=True)
    ]
    return batch if all(stays) else batch.filter(pa.array(stays))
